// A CPU backend with a pool and block tables, as the tests of this folder need it.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/cpu_backend.hpp"
#include "engine/formats/model_source.hpp"
#include "engine/model/model_config.hpp"
#include "tests/engine/backend/rig_blocks.hpp"

namespace sluice::test {

/// Options with activations and the KV cache in F32, for comparisons to the last digits.
inline CpuBackendOptions f32_kv(std::int32_t threads = 2, std::string kernels = "") {
  CpuBackendOptions options;
  options.threads = threads;
  options.precise = true;
  options.kv_type_k = options.kv_type_v = DType::kF32;
  options.kernels = std::move(kernels);
  return options;
}

class CpuRig : public RigBlocks {
 public:
  static constexpr std::int32_t kBlocks = 256;

  explicit CpuRig(const std::filesystem::path& model, CpuBackendOptions options = f32_kv(),
                  std::int32_t block_size = 16)
      : CpuRig(open_model(model), options, block_size) {}

  CpuRig(const std::shared_ptr<const ModelSource>& source, CpuBackendOptions options,
         std::int32_t block_size)
      : CpuRig(source, read_model_config(*source), options, block_size) {}

  CpuRig(const std::shared_ptr<const ModelSource>& source, const ModelConfig& model,
         CpuBackendOptions options, std::int32_t block_size = 16)
      : RigBlocks(kBlocks, block_size), config(model), backend(source, config, options) {
    backend.allocate_pool({kBlocks, block_size});
  }

  /// Logits of all positions, fed in chunks, [tokens x vocab].
  std::vector<float> logits(const std::vector<TokenId>& tokens, std::size_t chunk) {
    return logits_in_chunks(tokens, chunk, [this](const StepSlice& slice) {
      return backend.logits({0, {slice}});
    });
  }

  /// The `count` tokens that greedy decoding appends to the prompt.
  std::vector<TokenId> greedy(const std::vector<TokenId>& prompt, std::size_t count) {
    auto params = std::make_shared<SamplingParams>();
    params->temperature = 0;
    const std::vector<BlockId> table = take_blocks(prompt.size() + count);
    std::vector<TokenId> next = prompt;
    std::vector<TokenId> output;
    Position position = 0;
    while (output.size() < count) {
      StepSlice slice;
      slice.first_position = position;
      slice.tokens = next;
      slice.blocks = table;
      slice.sample = true;
      slice.sampling = params;
      const StepResult result = backend.step({0, {slice}});
      if (!result.slices.at(0).token) throw std::runtime_error(result.slices.at(0).error);
      position += static_cast<Position>(next.size());
      next = {result.slices[0].token->id};
      output.push_back(next[0]);
    }
    give_blocks(table);
    return output;
  }

  ModelConfig config;
  CpuBackend backend;
};

/// Largest absolute difference; infinite when something is not a number or lengths differ.
inline double max_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = a.size() == b.size() ? 0.0 : HUGE_VAL;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    worst = d <= worst ? worst : (d == d ? d : HUGE_VAL);
  }
  return worst;
}

/// Rows of a [rows x width] matrix.
inline std::vector<float> pick_rows(const std::vector<float>& matrix, std::size_t width,
                                    const std::vector<std::size_t>& rows) {
  std::vector<float> picked;
  for (const std::size_t row : rows)
    picked.insert(picked.end(), matrix.begin() + static_cast<std::ptrdiff_t>(row * width),
                  matrix.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
  return picked;
}

}  // namespace sluice::test
