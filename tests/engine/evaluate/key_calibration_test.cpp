#include "engine/evaluate/key_calibration.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>

#include "engine/backend/cpu_backend.hpp"
#include "engine/base/error.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

TEST_CASE(
    "coordinates of the calibration keys are uncorrelated and have the "
    "stated variances") {
  const auto dir = shared_dir("reference/models/llama-gqa");
  if (!dir) return;
  const auto source = open_model(*dir / "model.gguf");
  const ModelConfig config = read_model_config(*source);
  std::mt19937 random(2);
  std::vector<TokenId> tokens(160);
  for (TokenId& t : tokens) t = static_cast<TokenId>(random() % 331);
  CalibrationOptions options;
  options.context = 80;
  const KeyBasis basis = calibrate_keys(source, config, tokens, options);
  REQUIRE(basis.num_layers == config.num_layers);

  // The keys once more, one window after the other, straight from a backend.
  CpuBackendOptions backend_options;
  backend_options.kv_type_k = backend_options.kv_type_v = DType::kF32;
  CpuBackend backend(source, config, backend_options);
  backend.allocate_pool({5, 16});
  const auto n = static_cast<std::size_t>(config.head_dim);
  const auto layer = static_cast<std::size_t>(config.num_layers - 1);
  const auto head = static_cast<std::size_t>(config.num_kv_heads - 1);
  const std::size_t at = layer * static_cast<std::size_t>(config.num_kv_heads) + head;
  std::vector<std::vector<double>> coordinates;
  for (int w = 0; w < 2; ++w) {
    StepSlice slice;
    slice.tokens.assign(tokens.begin() + 80 * w, tokens.begin() + 80 * (w + 1));
    slice.blocks = {4, 2, 0, 1, 3};
    REQUIRE(backend.step({0, {slice}}).slices[0].error.empty());
    for (std::int32_t p = 0; p < 80; ++p) {
      const std::vector<float> keys =
          backend.stored_keys(layer, slice.blocks[static_cast<std::size_t>(p / 16)], p % 16);
      std::vector<double> row(n, 0.0);
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t d = 0; d < n; ++d)
          row[i] += static_cast<double>(basis.vectors[(at * n + i) * n + d]) *
                    static_cast<double>(keys[head * n + d] - basis.means[at * n + d]);
      coordinates.push_back(std::move(row));
    }
  }
  const auto total = static_cast<double>(basis.variances[at * n]);
  REQUIRE(total > 0.0);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double covariance = 0.0;
      for (const auto& row : coordinates) covariance += row[i] * row[j] / 160.0;
      CHECK(covariance == Approx(i == j ? static_cast<double>(basis.variances[at * n + i]) : 0.0)
                              .margin(1e-4 * total));
    }
}

TEST_CASE("a text too short for a basis is refused") {
  const auto dir = shared_dir("reference/models/llama-gqa");
  if (!dir) return;
  const auto source = open_model(*dir / "model.gguf");
  const std::vector<TokenId> tokens{1, 2};
  CHECK_THROWS_AS(calibrate_keys(source, read_model_config(*source), tokens, {}), Error);
}
