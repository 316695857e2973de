// A CUDA backend with a pool and block tables, as the tests of this folder need it.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/cuda/cuda_backend.hpp"
#include "engine/formats/model_source.hpp"
#include "engine/model/model_config.hpp"
#include "tests/engine/backend/rig_blocks.hpp"
#include "tests/support/cuda_under_test.hpp"

namespace sluice::test {

inline CudaBackendOptions small_cuda_options(DType kv = DType::kF32) {
  CudaBackendOptions options;
  options.kv_types = {kv, kv, {}, 0};
  options.max_batch_tokens = 64;
  options.max_sampled_rows = 8;
  return options;
}

class CudaRig : public RigBlocks {
 public:
  static constexpr std::int32_t kBlocks = 64;

  CudaRig(const std::shared_ptr<const ModelSource>& source, const CudaBackendOptions& options,
          const DeviceUnderTest& device = {}, std::int32_t block_size = 16,
          std::int32_t swap_slots = 0)
      : RigBlocks(kBlocks, block_size),
        config(read_model_config(*source)),
        backend(open_device_under_test(device), source, config, options) {
    KvPoolShape shape{kBlocks, block_size};
    shape.swap_slots = swap_slots;
    backend.allocate_pool(shape);
  }
  ~CudaRig() { CHECK(kernel_faults() == ""); }
  CudaRig(const CudaRig&) = delete;
  CudaRig& operator=(const CudaRig&) = delete;

  /// Logits of all positions, fed in chunks, [tokens x vocab].
  std::vector<float> logits(const std::vector<TokenId>& tokens, std::size_t chunk) {
    return logits_in_chunks(tokens, chunk, [this](const StepSlice& slice) {
      std::vector<std::size_t> rows(slice.tokens.size());
      std::iota(rows.begin(), rows.end(), std::size_t{0});
      return backend.logits({0, {slice}}, rows);
    });
  }

  ModelConfig config;
  CudaBackend backend;
};

/// One sequence that is fed and drawn from, step by step.
struct RigSequence {
  std::vector<TokenId> tokens;  ///< prompt and what was drawn
  std::vector<BlockId> table;
  std::size_t prompt = 0;
  std::size_t done = 0;  ///< tokens fed
  std::shared_ptr<const SamplingParams> params;
  std::vector<SampledToken> drawn;

  RigSequence(std::vector<TokenId> start, std::vector<BlockId> blocks, SamplingParams how)
      : tokens(std::move(start)),
        table(std::move(blocks)),
        prompt(tokens.size()),
        params(std::make_shared<SamplingParams>(std::move(how))) {}

  /// The next slice of at most `most` tokens; draws when it reaches the end.
  StepSlice slice(SequenceId id, std::size_t most) const {
    const std::size_t n = std::min(most, tokens.size() - done);
    StepSlice s;
    s.sequence = id;
    s.first_position = static_cast<Position>(done);
    s.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(done),
                    tokens.begin() + static_cast<std::ptrdiff_t>(done + n));
    s.blocks = table;
    s.sample = done + n == tokens.size();
    if (!s.sample) return s;
    s.sampling = params;
    s.num_generated = static_cast<Position>(tokens.size() - prompt);
    if (params->needs_history()) s.history = tokens;
    return s;
  }
  void take(const StepSlice& fed, const SliceResult& result) {
    if (!result.error.empty()) throw std::runtime_error(result.error);
    done += fed.tokens.size();
    if (!fed.sample) return;
    if (!result.token) throw std::runtime_error("no token");
    drawn.push_back(*result.token);
    tokens.push_back(result.token->id);
  }
};

/// Feeds all sequences together until each has drawn `count` tokens.
inline void run_all(Backend& backend, std::vector<RigSequence*> sequences, std::size_t count,
                    std::size_t chunk = 16) {
  while (true) {
    StepBatch batch;
    std::vector<RigSequence*> fed;
    for (RigSequence* s : sequences) {
      if (s->drawn.size() >= count) continue;
      batch.slices.push_back(s->slice(fed.size(), chunk));
      fed.push_back(s);
    }
    if (fed.empty()) return;
    const StepResult result = backend.step(batch);
    if (!result.fatal.empty()) throw std::runtime_error(result.fatal);
    for (std::size_t i = 0; i < fed.size(); ++i) fed[i]->take(batch.slices[i], result.slices[i]);
  }
}

inline std::vector<TokenId> ids_of(const RigSequence& sequence) {
  std::vector<TokenId> ids;
  for (const SampledToken& token : sequence.drawn) ids.push_back(token.id);
  return ids;
}

inline SamplingParams greedy_params() {
  SamplingParams params;
  params.temperature = 0.0F;
  return params;
}

}  // namespace sluice::test
