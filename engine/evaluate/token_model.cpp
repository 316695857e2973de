#include "engine/evaluate/token_model.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/model/encoder_config.hpp"

namespace sluice {
namespace {

constexpr std::int32_t kBlockSize = 16;

class CpuTokenModel final : public TokenModel {
 public:
  CpuTokenModel(std::shared_ptr<const ModelSource> source, const ModelConfig& config,
                const CpuBackendOptions& options, Position context)
      : backend_(std::move(source), config, options),
        vocab_size_(static_cast<std::size_t>(config.vocab_size)),
        context_(context),
        step_(static_cast<std::size_t>(options.max_batch_tokens)) {
    const std::int32_t blocks = (context + kBlockSize - 1) / kBlockSize;
    backend_.allocate_pool({blocks, kBlockSize});
    table_.resize(static_cast<std::size_t>(blocks));
    std::iota(table_.begin(), table_.end(), BlockId{0});
  }

  std::size_t vocab_size() const override { return vocab_size_; }
  Position context() const override { return context_; }
  std::size_t kv_bytes() const override { return backend_.memory().kv_bytes; }

  std::span<const float> feed(std::span<const TokenId> tokens, Position first_position,
                              std::size_t wanted) override {
    logits_.clear();
    const std::size_t quiet = tokens.size() - std::min(wanted, tokens.size());
    for (std::size_t i = 0; i < tokens.size();) {
      // Logits are costly: what nobody asked for goes through a step that makes none.
      const std::size_t end = i < quiet ? quiet : tokens.size();
      const std::size_t n = std::min(step_, end - i);
      run(tokens.subspan(i, n), first_position + static_cast<Position>(i), i >= quiet);
      i += n;
    }
    return logits_;
  }

 private:
  void run(std::span<const TokenId> tokens, Position first_position, bool want_logits) {
    StepBatch batch;
    StepSlice slice;
    slice.first_position = first_position;
    slice.tokens.assign(tokens.begin(), tokens.end());
    slice.blocks = table_;
    batch.slices.push_back(std::move(slice));
    if (want_logits) {
      const std::vector<float> part = backend_.logits(batch);
      logits_.insert(logits_.end(), part.begin(), part.end());
      return;
    }
    const StepResult result = backend_.step(batch);
    if (!result.fatal.empty()) throw Error(ErrorCode::kInternal, result.fatal);
    if (!result.slices[0].error.empty())
      throw Error(ErrorCode::kInvalidArgument, result.slices[0].error);
  }

  CpuBackend backend_;
  std::size_t vocab_size_;
  Position context_;
  std::size_t step_;
  std::vector<BlockId> table_;
  std::vector<float> logits_;
};

}  // namespace

std::unique_ptr<TokenModel> make_token_model(std::shared_ptr<const ModelSource> source,
                                             const ModelConfig& config,
                                             const CpuBackendOptions& options, Position context) {
  if (context < 2)
    throw Error(ErrorCode::kInvalidArgument,
                "An evaluation needs a context of at least 2 positions: one to see, one to guess.");
  require_decoder_alone(config, "An evaluation of a text");
  ModelConfig in_use = config;
  in_use.context_in_use = context;
  return std::make_unique<CpuTokenModel>(std::move(source), in_use, options, context);
}

}  // namespace sluice
