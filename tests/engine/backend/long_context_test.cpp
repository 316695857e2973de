// The experiments for long contexts in the whole model: sparse attention and
// low-rank keys.
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <random>

#include "engine/backend/key_projection.hpp"
#include "engine/base/error.hpp"
#include "engine/model/kv_types.hpp"
#include "tests/engine/backend/cpu_rig.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

const char* const kModel = "reference/models/llama-mha";

std::vector<TokenId> some_tokens(std::size_t n) {
  std::mt19937 random(7);
  std::vector<TokenId> tokens(n);
  for (TokenId& t : tokens) t = static_cast<TokenId>(random() % 331);
  return tokens;
}

/// Random orthonormal vectors (Gram and Schmidt) and random means for every
/// layer and head.
std::shared_ptr<KeyBasis> random_basis(const ModelConfig& config) {
  auto basis = std::make_shared<KeyBasis>();
  basis->num_layers = config.num_layers;
  basis->num_kv_heads = config.num_kv_heads;
  basis->head_dim = config.head_dim;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto n = static_cast<std::size_t>(config.head_dim);
  for (std::int32_t h = 0; h < config.num_layers * config.num_kv_heads; ++h) {
    std::vector<std::vector<double>> rows;
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<double> row(n);
      for (double& x : row) x = static_cast<double>(normal(random));
      for (const auto& other : rows) {
        double dot = 0;
        for (std::size_t d = 0; d < n; ++d) dot += row[d] * other[d];
        for (std::size_t d = 0; d < n; ++d) row[d] -= dot * other[d];
      }
      double length = 0;
      for (const double x : row) length += x * x;
      for (double& x : row) x /= std::sqrt(length);
      for (const double x : row) basis->vectors.push_back(static_cast<float>(x));
      rows.push_back(std::move(row));
      basis->means.push_back(normal(random));
      basis->variances.push_back(1.0F);
    }
  }
  return basis;
}

}  // namespace

TEST_CASE("sparse attention with a window for everything is dense attention") {
  const auto dir = shared_dir(kModel);
  if (!dir) return;
  const std::vector<TokenId> tokens = some_tokens(150);
  const std::vector<float> dense = CpuRig(*dir / "model.gguf").logits(tokens, 512);
  CpuBackendOptions options = f32_kv();
  options.sparse = {150, 8};
  CHECK(CpuRig(*dir / "model.gguf", options).logits(tokens, 512) == dense);
  options.sparse = {20, 1};  // every position before the window: the same in another order
  CHECK(max_difference(CpuRig(*dir / "model.gguf", options).logits(tokens, 512), dense) < 1e-3);
  options.sparse = {20, 8};
  const std::vector<float> sparse = CpuRig(*dir / "model.gguf", options).logits(tokens, 512);
  CHECK(max_difference(sparse, dense) > 0.05);
  const auto vocab = static_cast<std::ptrdiff_t>(331);
  CHECK(std::equal(sparse.begin(), sparse.begin() + 20 * vocab, dense.begin()));
}

TEST_CASE("sparse and low-rank logits do not depend on chunks or blocks or threads") {
  const auto dir = shared_dir(kModel);
  if (!dir) return;
  const std::vector<TokenId> tokens = some_tokens(170);
  for (const DType type : {DType::kF16, DType::kQ8_0}) {
    CpuBackendOptions options = f32_kv();
    options.kv_type_k = options.kv_type_v = type;
    options.sparse = {30, 3};
    CpuRig first(*dir / "model.gguf", options);
    options.key_basis = random_basis(first.config);
    options.key_rank = first.config.head_dim / 2;
    CpuRig low(*dir / "model.gguf", options);
    const std::vector<float> expected = low.logits(tokens, 512);
    CHECK(expected != first.logits(tokens, 512));
    for (const std::int32_t threads : {1, 3}) {
      options.threads = threads;
      CpuRig other(*dir / "model.gguf", options, threads == 1 ? 16 : 5);
      other.shuffle(static_cast<std::uint32_t>(threads));
      for (const std::size_t chunk : {1U, 7U, 64U}) CHECK(other.logits(tokens, chunk) == expected);
    }
  }
}

TEST_CASE(
    "keys of full rank change nothing but rounding and fewer take less "
    "memory") {
  const auto dir = shared_dir(kModel);
  if (!dir) return;
  const std::vector<TokenId> tokens = some_tokens(100);
  CpuRig plain(*dir / "model.gguf");
  const std::vector<float> exact = plain.logits(tokens, 512);
  const std::int32_t head_dim = plain.config.head_dim;
  CpuBackendOptions options = f32_kv();
  options.key_basis = random_basis(plain.config);
  for (const std::int32_t rank : {head_dim, head_dim / 2, head_dim / 8}) {
    CAPTURE(rank);
    options.key_rank = rank;
    CpuRig rig(*dir / "model.gguf", options);
    const double error = max_difference(rig.logits(tokens, 512), exact);
    if (rank == head_dim)
      CHECK(error < 2e-3);
    else
      CHECK(error > 0.05);
    KvTypes types{DType::kF32, DType::kF32, {}, rank};
    CHECK(rig.backend.memory().kv_bytes ==
          static_cast<std::size_t>(CpuRig::kBlocks * 16 * rig.config.num_layers) *
              kv_layer_bytes(types, rig.config, 0));
    CHECK(kv_layer_bytes(types, rig.config, 0) ==
          static_cast<std::size_t>(rig.config.num_kv_heads * 4 * (head_dim + rank)));
  }
}

TEST_CASE("experiments that can not work are refused") {
  const auto dir = shared_dir(kModel);
  if (!dir) return;
  CpuRig plain(*dir / "model.gguf");
  const auto refused = [&](const CpuBackendOptions& options) {
    CHECK_THROWS_AS(CpuRig(*dir / "model.gguf", options), Error);
  };
  CpuBackendOptions options = f32_kv();
  options.sparse = {10, 0};
  refused(options);
  options.sparse = {-1, 2};
  refused(options);
  options.sparse = {};
  options.key_rank = 4;
  refused(options);  // no basis
  options.key_basis = random_basis(plain.config);
  options.key_rank = plain.config.head_dim + 1;
  refused(options);
}
