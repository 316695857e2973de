#include "bench/suites/bench_engine.hpp"

#include <fmt/format.h>

#include <chrono>

#include "engine/base/error.hpp"
#include "engine/model/tensor_binder.hpp"

namespace sluice::bench {
namespace {

constexpr std::int32_t kBlockSize = 16;

Arithmetic arithmetic_of(kernels::PackedFormat format) {
  if (format == kernels::PackedFormat::kF16) return Arithmetic::kF32;
  return format == kernels::PackedFormat::kBF16 ? Arithmetic::kBf16 : Arithmetic::kInt8;
}

std::unique_ptr<Backend> make_backend(const std::shared_ptr<const ModelSource>& source,
                                      const ModelConfig& config, const BenchSettings& settings) {
  const CpuBackendOptions& options = settings.backend;
  if (!settings.cuda) return make_cpu_backend(source, config, options);
  CudaOfferRequest request;
  request.kv_types = {options.kv_type_k, options.kv_type_v, options.kv_layers, 0};
  request.max_batch_tokens = options.max_batch_tokens;
  request.precise = options.precise;
  request.fast_prefill = settings.fast_prefill;
  const CudaOffer offer = offer_cuda(source, config, request);
  if (!offer.why_not.empty())
    throw Error(ErrorCode::kUnsupported, fmt::format("No CUDA device: {}.", offer.why_not));
  return offer.make(config);
}

Position blocks_for(Position positions) {
  return (positions + kBlockSize - 1) / kBlockSize;
}

}  // namespace

BenchEngine::BenchEngine(const BenchSettings& settings, std::int32_t sequences, Position context)
    : source_(open_model(settings.model)),
      config_(read_model_config(*source_)),
      options_(settings.backend),
      lengths_(static_cast<std::size_t>(sequences), 0) {
  config_.context_in_use = context;
  backend_ = make_backend(source_, config_, settings);
  const std::int32_t each = blocks_for(context);
  KvPoolShape pool;
  pool.num_blocks = each * sequences;
  pool.block_size = kBlockSize;
  backend_->allocate_pool(pool);
  for (std::int32_t i = 0; i < sequences; ++i) {
    std::vector<BlockId> table(static_cast<std::size_t>(each));
    for (std::int32_t b = 0; b < each; ++b) table[static_cast<std::size_t>(b)] = i * each + b;
    tables_.push_back(std::move(table));
  }
  auto greedy = std::make_shared<SamplingParams>();
  greedy->temperature = 0;
  greedy_ = std::move(greedy);

  const bool tied = source_->find_tensor("output.weight") == nullptr;
  for (const TensorView& tensor : source_->tensors()) {
    if (tensor.shape.size() < 2) continue;
    const auto elements = static_cast<double>(tensor.elements());
    const bool embedding = tensor.name == "token_embd.weight";
    if (tensor.name == "output.weight" || (embedding && tied))
      head_weights_ += elements;
    else if (!embedding)
      layer_weights_ += elements;
    const kernels::PackedFormat format = packed_format_of(tensor.type);
    if (!options_.precise && !settings.cuda && format != kernels::PackedFormat::kNone)
      arithmetic_ = arithmetic_of(format);
  }
}

StepSlice BenchEngine::slice(std::size_t sequence, Position n) {
  StepSlice slice;
  slice.sequence = sequence + 1;
  slice.first_position = lengths_[sequence];
  for (Position i = 0; i < n; ++i) {
    token_ = token_ * 6364136223846793005U + 1442695040888963407U;
    slice.tokens.push_back(
        static_cast<TokenId>((token_ >> 33) % static_cast<std::uint64_t>(config_.vocab_size)));
  }
  slice.blocks = tables_[sequence];
  slice.sample = true;
  slice.sampling = greedy_;
  lengths_[sequence] += n;
  return slice;
}

double BenchEngine::run(const StepBatch& batch) {
  const auto start = std::chrono::steady_clock::now();
  const StepResult result = backend_->step(batch);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  for (const SliceResult& slice : result.slices)
    if (!slice.error.empty())
      throw Error(ErrorCode::kInternal, fmt::format("A step failed: {}", slice.error));
  if (!result.fatal.empty()) throw Error(ErrorCode::kInternal, result.fatal);
  return seconds.count();
}

double BenchEngine::prefill(std::size_t sequence, Position n) {
  double seconds = 0;
  for (Position left = n; left > 0;) {
    const Position part = std::min(left, options_.max_batch_tokens);
    StepBatch batch;
    batch.slices.push_back(slice(sequence, part));
    seconds += run(batch);
    left -= part;
  }
  return seconds;
}

double BenchEngine::decode(std::size_t count) {
  StepBatch batch;
  for (std::size_t i = 0; i < count; ++i) batch.slices.push_back(slice(i, 1));
  return run(batch);
}

StepCost BenchEngine::cost(std::size_t rows, std::size_t sampled, Position positions) const {
  // Weights that a step reads: all but the rows of an embedding that is no head.
  double file_bytes = 0;
  for (const TensorView& tensor : source_->tensors())
    if (tensor.name != "token_embd.weight" || source_->find_tensor("output.weight") == nullptr)
      file_bytes += static_cast<double>(tensor.data.size());
  const double kv_bytes =
      static_cast<double>(positions) * config_.num_layers *
      static_cast<double>(
          bytes_for(options_.kv_type_k, static_cast<std::size_t>(config_.kv_dim())) +
          bytes_for(options_.kv_type_v, static_cast<std::size_t>(config_.kv_dim())));
  return {file_bytes + kv_bytes, 2.0 * (static_cast<double>(rows) * layer_weights_ +
                                        static_cast<double>(sampled) * head_weights_)};
}

}  // namespace sluice::bench
