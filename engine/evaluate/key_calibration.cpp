#include "engine/evaluate/key_calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/backend/cpu_backend.hpp"
#include "engine/base/error.hpp"
#include "engine/evaluate/symmetric_eigen.hpp"
#include "engine/model/encoder_config.hpp"

namespace sluice {
namespace {

constexpr std::int32_t kBlockSize = 16;

/// Sums over the keys of one layer and KV head.
struct Moments {
  explicit Moments(std::size_t n) : sum(n, 0.0), products(n * n, 0.0) {}

  void add(std::span<const float> key) {
    const std::size_t n = key.size();
    for (std::size_t i = 0; i < n; ++i) {
      const auto x = static_cast<double>(key[i]);
      sum[i] += x;
      for (std::size_t j = 0; j <= i; ++j) products[i * n + j] += x * static_cast<double>(key[j]);
    }
  }

  /// Covariance, [n x n].
  std::vector<double> covariance(std::int64_t count) const {
    const std::size_t n = sum.size();
    const auto total = static_cast<double>(count);
    std::vector<double> c(n * n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j)
        c[i * n + j] = c[j * n + i] =
            products[i * n + j] / total - sum[i] / total * (sum[j] / total);
    return c;
  }

  std::vector<double> sum;       ///< [n]
  std::vector<double> products;  ///< [n x n], the lower half
};

class Calibration {
 public:
  Calibration(std::shared_ptr<const ModelSource> source, const ModelConfig& config,
              const CalibrationOptions& options)
      : config_(config),
        context_(options.context),
        backend_(std::move(source), config, backend_options(options)),
        moments_(static_cast<std::size_t>(config.num_layers) *
                     static_cast<std::size_t>(config.num_kv_heads),
                 Moments(static_cast<std::size_t>(config.head_dim))) {
    table_.resize(static_cast<std::size_t>((context_ + kBlockSize - 1) / kBlockSize));
    std::iota(table_.begin(), table_.end(), BlockId{0});
    backend_.allocate_pool({static_cast<std::int32_t>(table_.size()), kBlockSize});
  }

  /// One window, from position 0.
  void add(std::span<const TokenId> window) {
    StepSlice slice;
    slice.tokens.assign(window.begin(), window.end());
    slice.blocks = table_;
    const StepResult result = backend_.step({0, {slice}});
    if (!result.fatal.empty()) throw Error(ErrorCode::kInternal, result.fatal);
    if (!result.slices[0].error.empty())
      throw Error(ErrorCode::kInvalidArgument, result.slices[0].error);
    const auto head_dim = static_cast<std::size_t>(config_.head_dim);
    const auto heads = static_cast<std::size_t>(config_.num_kv_heads);
    for (std::size_t layer = 0; layer < static_cast<std::size_t>(config_.num_layers); ++layer)
      for (std::size_t p = 0; p < window.size(); ++p) {
        const std::vector<float> keys =
            backend_.stored_keys(layer, table_[p / kBlockSize], p % kBlockSize);
        for (std::size_t h = 0; h < heads; ++h)
          moments_[layer * heads + h].add(std::span(keys).subspan(h * head_dim, head_dim));
      }
    count_ += static_cast<std::int64_t>(window.size());
  }

  KeyBasis basis() const {
    KeyBasis basis{config_.num_layers, config_.num_kv_heads, config_.head_dim, {}, {}, {}};
    const auto n = static_cast<std::size_t>(config_.head_dim);
    for (const Moments& moments : moments_) {
      const EigenSystem system = symmetric_eigen(moments.covariance(count_), n);
      for (std::size_t i = 0; i < n; ++i) {
        basis.means.push_back(static_cast<float>(moments.sum[i] / static_cast<double>(count_)));
        basis.variances.push_back(static_cast<float>(std::max(system.values[i], 0.0)));
      }
      for (const double x : system.vectors) basis.vectors.push_back(static_cast<float>(x));
    }
    return basis;
  }

 private:
  static CpuBackendOptions backend_options(const CalibrationOptions& options) {
    CpuBackendOptions backend;
    backend.threads = options.threads;
    backend.kv_type_k = backend.kv_type_v = DType::kF32;
    backend.max_batch_tokens = options.context;
    backend.max_sampled_rows = 1;
    return backend;
  }

  ModelConfig config_;
  Position context_;
  CpuBackend backend_;
  std::vector<BlockId> table_;
  std::vector<Moments> moments_;  ///< [layers x KV heads]
  std::int64_t count_ = 0;
};

}  // namespace

KeyBasis calibrate_keys(std::shared_ptr<const ModelSource> source, const ModelConfig& config,
                        std::span<const TokenId> tokens, const CalibrationOptions& options,
                        const CalibrationProgress& progress) {
  require_decoder_alone(config, "A key basis");
  if (options.context < 1)
    throw Error(ErrorCode::kInvalidArgument, "A calibration window needs at least 1 token.");
  if (static_cast<std::size_t>(config.head_dim) > kMostKeyElements)
    throw Error(ErrorCode::kUnsupported, fmt::format("Heads of {} elements are too large for a key "
                                                     "basis; {} are possible.",
                                                     config.head_dim, kMostKeyElements));
  const auto all = options.max_tokens > 0
                       ? std::min(tokens.size(), static_cast<std::size_t>(options.max_tokens))
                       : tokens.size();
  if (all < static_cast<std::size_t>(config.head_dim))
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("The calibration text has {} tokens; directions of heads "
                            "of {} elements "
                            "need at least as many, better a hundred times as many.",
                            all, config.head_dim));
  Calibration calibration(std::move(source), config, options);
  const auto window = static_cast<std::size_t>(options.context);
  for (std::size_t begin = 0; begin < all; begin += window) {
    const std::size_t n = std::min(window, all - begin);
    calibration.add(tokens.subspan(begin, n));
    if (progress && !progress(static_cast<std::int64_t>(begin + n), static_cast<std::int64_t>(all)))
      break;
  }
  return calibration.basis();
}

}  // namespace sluice
