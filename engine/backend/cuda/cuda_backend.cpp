#include "engine/backend/cuda/cuda_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "engine/backend/cuda/cuda_decoder.hpp"
#include "engine/backend/cuda/decode_graphs.hpp"
#include "engine/backend/cuda/device_kv_pool.hpp"
#include "engine/backend/cuda/device_memory.hpp"
#include "engine/backend/cuda/model_support.hpp"
#include "engine/backend/cuda/sample_results.hpp"
#include "engine/backend/cuda/step_inputs.hpp"
#include "engine/backend/cuda/step_staging.hpp"
#include "engine/backend/slice_check.hpp"
#include "engine/base/error.hpp"
#include "kernels/cuda/device_usage.hpp"

namespace sluice {
namespace {

namespace cuda = kernels::cuda;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kFirstStagingBytes = std::size_t{1} << 20;
/// How long an event is looked at without a pause: longer than most steps of decoding rows.
constexpr std::chrono::milliseconds kWatchful{5};
/// Between two looks from then on.
constexpr std::chrono::microseconds kLookInterval{50};

CudaDecoderLimits limits_of(const CudaBackendOptions& options) {
  return {rows_with_padding(options.max_batch_tokens),
          std::min(options.max_sampled_rows, options.max_batch_tokens), options.fast_prefill};
}

void check(const kernels::cuda::DeviceApi& device, const ModelSource& source,
           const ModelConfig& config, const CudaBackendOptions& options) {
  if (options.max_batch_tokens < 1 || options.max_sampled_rows < 1)
    throw Error(ErrorCode::kInvalidArgument, "a step must be allowed at least 1 token");
  check_kv_types(options.kv_types, config);
  if (const std::string reason = why_not_on_cuda(source, config, options.kv_types, options.precise);
      !reason.empty())
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} can't run on a CUDA device: {}.", source.path().string(), reason));
  if (options.fast_prefill && !device.why_no_gemm().empty())
    throw Error(ErrorCode::kUnsupported,
                fmt::format("--fast-prefill needs cuBLAS: {}.", device.why_no_gemm()));
}

/// A token that the step under way will bring.
struct Awaited {
  std::size_t slice = 0;
  Position position = 0;
};

}  // namespace

struct CudaBackend::Impl {
  Impl(std::unique_ptr<cuda::DeviceApi> opened, std::shared_ptr<const ModelSource> source,
       const ModelConfig& model, const CudaBackendOptions& wanted)
      : device(std::move(opened)), config(model), options(wanted) {
    check(*device, *source, config, options);
    require(device->use_on_this_thread(), "opening the CUDA device");
    compute.emplace(*device);
    copies.emplace(*device);
    moved.emplace(*device);
    done.emplace(*device);
    const CudaDecoderLimits limits = limits_of(options);
    const DecoderWeights weights = bind_decoder_weights(std::move(source), config);
    decoder.emplace(config, upload_weights(weights, config, options.precise, *copies), limits,
                    *compute);
    staging.emplace(*compute, kFirstStagingBytes);
    graphs.emplace(*compute);
    const auto rows = static_cast<std::size_t>(limits.rows);
    const auto sampled = static_cast<std::size_t>(limits.sampled_rows);
    const std::size_t counts_bytes =
        sampled * static_cast<std::size_t>(config.vocab_size) * sizeof(std::int32_t);
    counts = DeviceBuffer(*compute, counts_bytes, "sampling");
    results = DeviceBuffer(*compute, rows * sizeof(cuda::SampleResult), "sampling");
    results_here = PinnedBuffer(*compute, results.bytes(), "sampling");
    compute->fill_zero(counts.data(), counts_bytes);
    compute->synchronize();
    require(compute->error(), "preparing the CUDA device");
  }

  ~Impl() {
    // Nothing may be under way when memory is given back, whatever thread this is.
    device->use_on_this_thread();
    device->synchronize_stream(copies->stream());
    device->synchronize_stream(compute->stream());
  }

  void allocate_pool(const KvPoolShape& shape) {
    require(device->use_on_this_thread(), "opening the CUDA device");
    graphs->clear();
    pool = DeviceKvPool{};  // gives the old one back first
    compute->synchronize();
    pool = DeviceKvPool(shape, config, options.kv_types, *compute);
    decoder->size_attention(options.max_positions > 0 ? options.max_positions : pool.positions());
    compute->synchronize();
    require(compute->error(), "taking memory for the KV pool");
  }

  SliceLimits limits() const {
    Position positions = config.options.learned_positions ? config.context_length : 0;
    if (options.max_positions > 0)
      positions =
          positions > 0 ? std::min(positions, options.max_positions) : options.max_positions;
    return {config.vocab_size, options.max_batch_tokens, pool.shape(), config.widest_window(),
            positions};
  }

  /// Checks the slices, gives those that fail their error and returns the others.
  std::vector<std::size_t> accept(const StepBatch& batch, StepResult& result) const;
  /// Enqueues everything up to the hidden states.
  void compute_rows(const StepBatch& batch, const StepInputs& inputs);
  void enqueue_moves(const StepBatch& batch, const StepView& step);
  void enqueue_draws(const StepView& step);
  /// Puts the results of a step that is done into `pending`.
  void collect();
  /// What a failed call makes of the step.
  void fail();

  std::unique_ptr<cuda::DeviceApi> device;  // first: everything else lives on it
  ModelConfig config;
  CudaBackendOptions options;
  std::optional<DeviceQueue> compute;
  std::optional<DeviceQueue> copies;
  std::optional<DeviceMark> moved;
  std::optional<DeviceMark> done;
  std::optional<CudaDecoder> decoder;
  std::optional<StepStaging> staging;
  std::uint64_t staging_generation = 0;
  std::optional<DecodeGraphs> graphs;
  DeviceBuffer counts;   ///< [sampled rows x vocab], zeros between steps
  DeviceBuffer results;  ///< a SampleResult for each row that draws
  PinnedBuffer results_here;
  DeviceKvPool pool;
  CudaStepCounts step_counts;

  // The step under way.
  StepResult pending;
  std::vector<Awaited> awaited;
  Clock::time_point begun;
  bool on_device = false;     ///< `done` will come
  bool logits_ready = false;  ///< of all rows that draw
};

CudaBackend::CudaBackend(std::unique_ptr<cuda::DeviceApi> device,
                         std::shared_ptr<const ModelSource> source, const ModelConfig& config,
                         const CudaBackendOptions& options)
    : impl_(std::make_unique<Impl>(std::move(device), std::move(source), config, options)) {}

CudaBackend::~CudaBackend() = default;

void CudaBackend::allocate_pool(const KvPoolShape& shape) {
  impl_->allocate_pool(shape);
}

StepResult CudaBackend::step(const StepBatch& batch) noexcept {
  begin_step(batch);
  while (true)
    if (std::optional<StepResult> result = end_step(std::chrono::seconds(1)))
      return *std::move(result);
}

void CudaBackend::begin_step(const StepBatch& batch) noexcept {
  Impl& impl = *impl_;
  impl.begun = Clock::now();
  impl.pending = StepResult{};
  impl.pending.number = batch.number;
  impl.on_device = false;
  impl.awaited.clear();
  try {
    impl.compute->note(impl.device->use_on_this_thread());
    const std::vector<std::size_t> accepted = impl.accept(batch, impl.pending);
    if (!impl.pending.fatal.empty()) return;
    const StepInputs inputs =
        stage_step(batch, accepted, impl.pool.shape(), impl.decoder->tile_rows(), *impl.staging);
    for (const std::size_t i : inputs.drawing) {
      const StepSlice& slice = batch.slices[i];
      impl.awaited.push_back(
          {i, slice.first_position + static_cast<Position>(slice.tokens.size())});
    }
    impl.compute_rows(batch, inputs);
    impl.enqueue_draws(inputs.view);
    impl.compute->record(*impl.done);
    impl.on_device = !impl.compute->failed();
    if (!impl.on_device) impl.fail();
  } catch (const std::exception& e) {  // no memory for a larger step
    impl.pending.fatal = e.what();
  }
}

std::optional<StepResult> CudaBackend::end_step(std::chrono::microseconds patience) noexcept {
  Impl& impl = *impl_;
  const Clock::time_point until = Clock::now() + patience;
  while (impl.on_device) {
    bool reached = false;
    impl.compute->note(impl.device->query(impl.done->event(), reached));
    if (impl.compute->failed()) {
      impl.on_device = false;
      impl.fail();
    } else if (reached) {
      impl.on_device = false;
      try {
        impl.collect();
      } catch (const std::exception& e) {
        impl.pending.fatal = e.what();
      }
    } else if (Clock::now() >= until) {
      return std::nullopt;
    } else if (Clock::now() - impl.begun < kWatchful) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kLookInterval);
    }
  }
  impl.pending.duration = Clock::now() - impl.begun;
  return std::move(impl.pending);
}

std::vector<std::size_t> CudaBackend::Impl::accept(const StepBatch& batch,
                                                   StepResult& result) const {
  std::vector<std::size_t> accepted;
  result.slices.resize(batch.slices.size());
  for (std::size_t i = 0; i < batch.slices.size(); ++i)
    result.slices[i].sequence = batch.slices[i].sequence;
  for (const BlockMove& move : batch.moves) {
    if (pool.has(move)) continue;
    result.fatal = "a block was to be moved that the KV pool does not have";
    return {};
  }
  const SliceLimits limits = this->limits();
  std::size_t rows = 0;
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    result.slices[i].error = check_slice(batch.slices[i], limits, rows);
    if (!result.slices[i].error.empty()) continue;
    accepted.push_back(i);
    rows += batch.slices[i].tokens.size();
  }
  return accepted;
}

void CudaBackend::Impl::compute_rows(const StepBatch& batch, const StepInputs& inputs) {
  if (staging->generation() != staging_generation) {
    graphs->clear();
    staging_generation = staging->generation();
  }
  const StepView& step = inputs.view;
  logits_ready = false;
  staging->send(*compute);
  enqueue_moves(batch, step);
  if (step.rows == 0) return;
  if (step.bucket.rows == 0 || !options.graphs) {
    decoder->forward(step, pool);
    ++step_counts.eager;
    return;
  }
  // Logits belong to the graph where they all fit at a time.
  logits_ready = step.num_sampled <= limits_of(options).sampled_rows;
  const bool replayed = graphs->run(step.bucket, [&] {
    decoder->forward(step, pool);
    if (logits_ready) decoder->logits(step, 0, step.num_sampled);
  });
  replayed ? ++step_counts.replayed : ++step_counts.eager;
  step_counts.recorded = graphs->recorded();
}

void CudaBackend::Impl::enqueue_moves(const StepBatch& batch, const StepView& step) {
  if (batch.moves.empty()) return;
  // The copy stream reads the pairs that the compute stream brought, and the blocks that earlier
  // steps wrote there.
  compute->record(*moved);
  copies->wait_for(*moved);
  for (const MoveRun& run : DeviceKvPool::runs_of(batch.moves))
    pool.move(run, step.moves + run.first, *copies);
  copies->record(*moved);
  compute->wait_for(*moved);
  compute->note(copies->take_error());
}

void CudaBackend::Impl::enqueue_draws(const StepView& step) {
  const std::int32_t at_once = limits_of(options).sampled_rows;
  if (awaited.empty()) return;
  for (std::int32_t first = 0; first < step.num_sampled; first += at_once) {
    const std::int32_t count = std::min(at_once, step.num_sampled - first);
    cuda::Sampling draw;
    draw.logits = logits_ready ? decoder->last_logits() : decoder->logits(step, first, count);
    draw.vocab = config.vocab_size;
    draw.params = step.sampling + first;
    draw.biases = step.biases;
    draw.banned = step.banned;
    draw.history = step.history;
    draw.counts = counts.as<std::int32_t>();
    draw.results = results.as<cuda::SampleResult>() + first;
    compute->launch([=](cuda::Stream stream) { return cuda::sample(draw, count, stream); });
  }
  compute->download(results_here.data(), results.data(),
                    awaited.size() * sizeof(cuda::SampleResult));
}

void CudaBackend::Impl::collect() {
  for (std::size_t n = 0; n < awaited.size(); ++n) {
    cuda::SampleResult result;
    std::memcpy(&result, results_here.data() + n * sizeof result, sizeof result);
    SliceResult& slice = pending.slices[awaited[n].slice];
    slice.error = sample_fault(result, awaited[n].position);
    if (slice.error.empty()) slice.token = sampled_token(result);
  }
}

void CudaBackend::Impl::fail() {
  pending.fatal = fmt::format("CUDA device {} ({}): {}", device->properties().index,
                              device->properties().name, compute->error().sentence());
}

std::vector<float> CudaBackend::logits(const StepBatch& batch, std::span<const std::size_t> rows) {
  Impl& impl = *impl_;
  require(impl.device->use_on_this_thread(), "opening the CUDA device");
  StepResult checked;
  const std::vector<std::size_t> accepted = impl.accept(batch, checked);
  for (const SliceResult& slice : checked.slices)
    if (!slice.error.empty()) throw Error(ErrorCode::kInvalidArgument, slice.error);
  const StepInputs inputs =
      stage_step(batch, accepted, impl.pool.shape(), impl.decoder->tile_rows(), *impl.staging);
  impl.compute_rows(batch, inputs);

  // The device's rows are in another order.
  std::vector<std::int32_t> place;
  for (std::size_t i = 0; i < batch.slices.size(); ++i)
    for (std::size_t k = 0; k < batch.slices[i].tokens.size(); ++k)
      place.push_back(inputs.first_row[i] + static_cast<std::int32_t>(k));
  const auto vocab = static_cast<std::size_t>(impl.config.vocab_size);
  const auto at_once = static_cast<std::size_t>(limits_of(impl.options).sampled_rows);
  DeviceBuffer wanted(*impl.compute, at_once * sizeof(std::int32_t), "logits");
  PinnedBuffer index(*impl.compute, wanted.bytes(), "logits");
  PinnedBuffer part(*impl.compute, at_once * vocab * sizeof(float), "logits");
  std::vector<float> all(rows.size() * vocab);
  for (std::size_t first = 0; first < rows.size(); first += at_once) {
    const std::size_t count = std::min(at_once, rows.size() - first);
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(index.data() + i * sizeof(std::int32_t), &place.at(rows[first + i]),
                  sizeof(std::int32_t));
    impl.compute->upload(wanted.data(), index.data(), count * sizeof(std::int32_t));
    const float* logits =
        impl.decoder->logits_of(wanted.as<std::int32_t>(), static_cast<std::int32_t>(count));
    impl.compute->download(part.data(), logits, count * vocab * sizeof(float));
    impl.compute->synchronize();
    require(impl.compute->error(), "computing logits");
    std::memcpy(all.data() + first * vocab, part.data(), count * vocab * sizeof(float));
  }
  return all;
}

BackendMemory CudaBackend::memory() const {
  const Impl& impl = *impl_;
  return {impl.decoder->weights_bytes(), impl.pool.bytes(),
          impl.decoder->scratch_bytes() + impl.staging->bytes() + impl.counts.bytes() +
              impl.results.bytes(),
          impl.pool.swap_bytes()};
}

std::string CudaBackend::description() const {
  const cuda::DeviceProperties& device = impl_->device->properties();
  return fmt::format("CUDA device {}, {}{}{}", device.index, device.name,
                     impl_->options.precise ? ", weights in f32" : "",
                     impl_->options.fast_prefill ? ", prompts by cuBLAS" : "");
}

DeviceProbe CudaBackend::device_probe() const {
  const cuda::DeviceProperties& device = impl_->device->properties();
  auto monitor = cuda::DeviceMonitor::open(device.index);
  if (!monitor) return {};
  return [monitor = std::move(monitor), index = device.index, name = device.name] {
    std::vector<DeviceUsage> usage;
    if (const auto load = monitor->load()) {
      usage.push_back({index, name, load->utilization, load->used_bytes, load->total_bytes});
    }
    return usage;
  };
}

CudaStepCounts CudaBackend::counts() const {
  return impl_->step_counts;
}

std::size_t CudaBackend::estimate_scratch_bytes(const ModelConfig& config,
                                                const CudaBackendOptions& options) {
  const CudaDecoderLimits limits = limits_of(options);
  const auto rows = static_cast<std::size_t>(limits.rows);
  return CudaDecoder::estimate_scratch_bytes(config, limits, options.max_positions) +
         kFirstStagingBytes +
         static_cast<std::size_t>(limits.sampled_rows) *
             static_cast<std::size_t>(config.vocab_size) * sizeof(std::int32_t) +
         rows * sizeof(cuda::SampleResult);
}

}  // namespace sluice
