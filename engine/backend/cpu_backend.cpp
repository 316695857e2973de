#include "engine/backend/cpu_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <span>
#include <utility>

#include "engine/backend/cpu_decoder.hpp"
#include "engine/backend/cpu_kv_pool.hpp"
#include "engine/backend/slice_check.hpp"
#include "engine/backend/weight_packer.hpp"
#include "engine/base/error.hpp"
#include "engine/model/decoder_weights.hpp"
#include "engine/model/encoder_config.hpp"
#include "engine/sampling/sampler.hpp"
#include "kernels/cpu/cpu_info.hpp"
#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/thread_pool.hpp"

namespace sluice {
namespace {

constexpr std::int32_t kMaxThreads = 1024;

kernels::Isa choose_isa(const std::string& key) {
  if (key.empty()) return kernels::best_isa();
  const auto isa = kernels::isa_from_key(key);
  if (!isa)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("there are no kernels named '{}'; use scalar, avx2, avx512 or "
                            "avx512vnni",
                            key));
  if (!kernels::isa_supported(*isa))
    throw Error(ErrorCode::kUnsupported,
                fmt::format("this processor can't run the {} kernels; leave the choice out or use "
                            "scalar",
                            key));
  return *isa;
}

KvTypes kv_types(const CpuBackendOptions& options) {
  return {options.kv_type_k, options.kv_type_v, options.kv_layers, options.key_rank};
}

void check_experiments(const CpuBackendOptions& options, const ModelConfig& config) {
  const SparseAttention& sparse = options.sparse;
  if (sparse.window < 0 || sparse.stride < 0 || sparse.active() != (sparse.stride > 0))
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("sparse attention needs a window and a stride of at least 1, not {} "
                            "and {}",
                            sparse.window, sparse.stride));
  if (sparse.active()) require_decoder_alone(config, "Sparse attention");
  if (options.key_rank > 0) require_decoder_alone(config, "A key basis");
  if ((options.key_rank > 0) != (options.key_basis != nullptr))
    throw Error(ErrorCode::kInvalidArgument,
                "keys of a lower rank need a key basis and a rank, not one of them");
  if (options.key_basis) check_key_basis(*options.key_basis, options.key_rank, config);
}

KeyProjection key_projection(const CpuBackendOptions& options) {
  return options.key_basis ? KeyProjection(*options.key_basis, options.key_rank) : KeyProjection();
}

/// The options with defaults filled in. Throws Error(kInvalidArgument, kUnsupported).
CpuBackendOptions checked(CpuBackendOptions options, const ModelConfig& config) {
  if (options.threads < 0 || options.threads > kMaxThreads)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} threads are not possible; use 1 to {}, or 0 for one a core",
                            options.threads, kMaxThreads));
  if (options.max_batch_tokens < 1 || options.max_sampled_rows < 1)
    throw Error(ErrorCode::kInvalidArgument, "a step must be allowed at least 1 token");
  check_kv_types(kv_types(options), config);
  check_experiments(options, config);
  if (options.threads == 0) options.threads = kernels::usable_physical_cores();
  return options;
}

/// The part that the decoder reads.
DecoderSlice decoder_slice(const StepSlice& slice, std::size_t first_row) {
  const auto skipped = static_cast<std::size_t>(slice.num_encoder_tokens());
  return {std::span(slice.tokens).subspan(skipped),
          static_cast<std::size_t>(slice.first_position) + skipped,
          slice.blocks,
          first_row,
          slice.more_blocks,
          static_cast<std::size_t>(slice.encoder_positions)};
}

/// What a step computes, of slices that have passed the checks.
struct Work {
  std::vector<EncoderInput> inputs{};
  std::vector<DecoderSlice> slices{};
  std::size_t rows = 0;  ///< of the decoder

  void add(const StepSlice& slice) {
    if (slice.num_encoder_tokens() > 0)
      inputs.push_back(
          {slice.encoder_input, static_cast<std::size_t>(slice.first_position), slice.blocks});
    if (slice.num_decoder_tokens() == 0) return;
    slices.push_back(decoder_slice(slice, rows));
    rows += slices.back().tokens.size();
  }
};

/// A token to be drawn: for which slice, from which row of the step.
struct Draw {
  std::size_t slice = 0;
  std::size_t row = 0;
};

}  // namespace

struct CpuBackend::Impl {
  Impl(std::shared_ptr<const ModelSource> source, const ModelConfig& model,
       const CpuBackendOptions& wanted)
      : config(model),
        options(checked(wanted, model)),
        kernels(kernels::kernel_table(choose_isa(options.kernels))),
        threads(options.threads),
        decoder(config, load_weights(std::move(source)), kernels, threads, options.max_batch_tokens,
                options.max_sampled_rows) {
    decoder.use_experiments(options.sparse, key_projection(options));
    options.key_basis.reset();  // the decoder has what it needs of it
    for (int i = 0; i < threads.threads(); ++i)
      samplers.emplace_back(static_cast<std::size_t>(config.vocab_size));
  }

  SliceLimits limits() const {
    return {config.vocab_size,
            options.max_batch_tokens,
            pool.shape(),
            config.widest_window(),
            config.options.learned_positions ? config.context_length : 0,
            config.has_encoder()};
  }
  void compute(const Work& work) {
    decoder.encode(work.inputs, pool);
    decoder.forward(work.slices, pool);
  }

  DecoderWeights load_weights(std::shared_ptr<const ModelSource> source) {
    DecoderWeights weights = bind_decoder_weights(std::move(source), config);
    if (!options.precise) packed = pack_weights(weights, kernels, threads);
    return weights;
  }
  /// Computes the slices that pass the checks; the others get their error.
  void run(const StepBatch& batch, StepResult& result);
  /// Draws the tokens of one round: at most decoder.max_logits_rows().
  void draw(const StepBatch& batch, std::span<const Draw> round, StepResult& result);

  ModelConfig config;
  CpuBackendOptions options;
  const kernels::KernelTable& kernels;
  kernels::ThreadPool threads;
  MappedMemory packed;  ///< weights in the kernels' layout
  CpuDecoder decoder;
  std::vector<Sampler> samplers;  ///< one a thread
  CpuKvPool pool;
};

CpuBackend::CpuBackend(std::shared_ptr<const ModelSource> source, const ModelConfig& config,
                       const CpuBackendOptions& options)
    : impl_(std::make_unique<Impl>(std::move(source), config, options)) {}

CpuBackend::~CpuBackend() = default;

void CpuBackend::allocate_pool(const KvPoolShape& shape) {
  impl_->pool = CpuKvPool{};  // gives the old one back first
  impl_->pool = CpuKvPool(shape, impl_->config, kv_types(impl_->options));
}

StepResult CpuBackend::step(const StepBatch& batch) noexcept {
  const auto start = std::chrono::steady_clock::now();
  StepResult result;
  result.number = batch.number;
  try {
    result.slices.resize(batch.slices.size());
    for (std::size_t i = 0; i < batch.slices.size(); ++i)
      result.slices[i].sequence = batch.slices[i].sequence;
    impl_->run(batch, result);
  } catch (const std::exception& e) {  // in practice: no memory for the result
    result.fatal = e.what();
  }
  result.duration = std::chrono::steady_clock::now() - start;
  return result;
}

void CpuBackend::Impl::run(const StepBatch& batch, StepResult& result) {
  Work work;
  std::vector<Draw> draws;
  for (const BlockMove& move : batch.moves) {
    if (pool.move(move)) continue;
    result.fatal = "a block was to be moved that the KV pool does not have";
    return;
  }
  const SliceLimits limits = this->limits();
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    const StepSlice& slice = batch.slices[i];
    result.slices[i].error = check_slice(slice, limits, work.rows);
    if (!result.slices[i].error.empty()) continue;
    work.add(slice);
    if (slice.sample) draws.push_back({i, work.rows - 1});
  }
  compute(work);
  for (std::size_t i = 0; i < draws.size(); i += decoder.max_logits_rows())
    draw(batch, std::span(draws).subspan(i, std::min(decoder.max_logits_rows(), draws.size() - i)),
         result);
}

void CpuBackend::Impl::draw(const StepBatch& batch, std::span<const Draw> round,
                            StepResult& result) {
  std::vector<std::size_t> rows;
  for (const Draw& one : round) rows.push_back(one.row);
  const std::span<float> logits = decoder.logits(rows);
  const auto vocab = static_cast<std::size_t>(config.vocab_size);
  threads.for_each_chunk(round.size(), 1, [&](std::size_t i, std::size_t, std::size_t thread) {
    const StepSlice& slice = batch.slices[round[i].slice];
    SliceResult& out = result.slices[round[i].slice];
    try {
      const Position position = slice.first_position + static_cast<Position>(slice.tokens.size());
      SampleOutcome outcome =
          samplers[thread].sample({logits.subspan(i * vocab, vocab), slice.sampling.get(), position,
                                   slice.num_generated, slice.history});
      out.error = std::move(outcome.error);
      if (out.error.empty()) out.token = std::move(outcome.token);
    } catch (const std::exception&) {
      // A short message needs no memory of its own.
      out.error = "out of memory";
    }
  });
}

std::vector<float> CpuBackend::logits(const StepBatch& batch) {
  std::size_t count = 0;
  for (const StepSlice& slice : batch.slices)
    count += static_cast<std::size_t>(std::max(slice.num_decoder_tokens(), 0));
  std::vector<std::size_t> rows(count);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  return logits(batch, rows);
}

std::vector<float> CpuBackend::logits(const StepBatch& batch, std::span<const std::size_t> rows) {
  Impl& impl = *impl_;
  Work work;
  for (const StepSlice& slice : batch.slices) {
    if (const std::string error = check_slice(slice, impl.limits(), work.rows); !error.empty())
      throw Error(ErrorCode::kInvalidArgument, error);
    work.add(slice);
  }
  impl.compute(work);
  std::vector<float> result;
  for (std::size_t i = 0; i < rows.size(); i += impl.decoder.max_logits_rows()) {
    const std::size_t count = std::min(impl.decoder.max_logits_rows(), rows.size() - i);
    const std::span<float> part = impl.decoder.logits(rows.subspan(i, count));
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

std::vector<float> CpuBackend::stored_keys(std::size_t layer, BlockId block,
                                           std::int32_t offset) const {
  return impl_->pool.stored_keys(layer, block, offset);
}

BackendMemory CpuBackend::memory() const {
  const auto vocab = static_cast<std::size_t>(impl_->config.vocab_size);
  return {impl_->decoder.weights_bytes(), impl_->pool.bytes(),
          impl_->decoder.scratch_bytes() + impl_->samplers.size() * Sampler::workspace_bytes(vocab),
          impl_->pool.swap_bytes()};
}

std::string CpuBackend::description() const {
  const int count = impl_->threads.threads();
  return fmt::format("CPU, {}, {} thread{}{}", kernels::isa_name(impl_->kernels.isa), count,
                     count == 1 ? "" : "s", impl_->options.precise ? ", exact activations" : "");
}

std::unique_ptr<Backend> make_cpu_backend(std::shared_ptr<const ModelSource> source,
                                          const ModelConfig& config,
                                          const CpuBackendOptions& options) {
  return std::make_unique<CpuBackend>(std::move(source), config, options);
}

}  // namespace sluice
