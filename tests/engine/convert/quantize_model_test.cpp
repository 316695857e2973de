#include "engine/convert/quantize_model.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "engine/base/error.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/model_folder.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;
using Catch::Matchers::Contains;

namespace {

namespace fs = std::filesystem;

/// Writes `source` in a type and opens what was written.
std::shared_ptr<const ModelSource> quantized(const ModelSource& source, std::string_view type,
                                             const fs::path& path, int threads = 2) {
  const QuantizePlan plan = plan_quantize(source, *find_quantize_recipe(type));
  kernels::ThreadPool pool(threads);
  write_quantized(source, plan, path, pool, nullptr);
  CHECK(fs::file_size(path) == plan.file_bytes);
  return open_model(path);
}

std::vector<float> values_of(const TensorView& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  traits(tensor.type).dequantize(tensor.data.data(), values.data(), values.size());
  return values;
}

double rms_difference(const TensorView& a, const TensorView& b) {
  const std::vector<float> x = values_of(a);
  const std::vector<float> y = values_of(b);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    sum += d * d;
  }
  return std::sqrt(sum / static_cast<double>(x.size()));
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A model of one layer with the given experts, and a tied embedding.
GgufWriter small_model() {
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_u32("llama.block_count", 1);
  writer.add_u32("llama.embedding_length", 32);
  writer.add_u32("llama.attention.head_count", 4);
  writer.add_bool("sluice.rope_halves", true);
  writer.add_f32_tensor("token_embd.weight", {32, 3}, std::vector<float>(96, 1.0F));
  return writer;
}

std::vector<float> counted(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
  return values;
}

}  // namespace

TEST_CASE("a folder written as F32 is the GGUF file of the reference") {
  const auto dir = shared_dir("reference");
  if (!dir) return;
  const TempFolder out;
  for (const char* name : {"llama-gqa", "qwen2", "qwen3", "gemma3", "gpt2"}) {
    CAPTURE(name);
    const auto expected = open_model(*dir / "models" / name / "model.gguf");
    const auto source = open_model(*dir / "hf" / name / "f32");
    const auto written = quantized(*source, "F32", out.path() / (std::string(name) + ".gguf"));
    CHECK(written->tensors().size() == expected->tensors().size());
    for (const TensorView& tensor : expected->tensors()) {
      CAPTURE(tensor.name);
      const TensorView* found = written->find_tensor(tensor.name);
      REQUIRE(found != nullptr);
      CHECK(found->shape == tensor.shape);
      CHECK(rms_difference(*found, tensor) < 1e-8);
    }
    for (const auto& [key, value] : expected->metadata()) {
      // The folder's name is the model's; head sizes may be left out where they follow.
      if (key == "general.name" || key == "general.type" || key.ends_with("_length")) continue;
      CAPTURE(key);
      const auto found = written->metadata().find(key);
      REQUIRE(found != written->metadata().end());
      CHECK(found->second == value);
    }
    for (const auto& [key, value] : written->metadata()) CHECK_FALSE(key.starts_with("sluice."));
  }
}

TEST_CASE("rounding errors are at most those of the reference files") {
  const auto dir = shared_dir("reference/quant");
  if (!dir) return;
  const auto exact = open_model(*dir / "F16/model.gguf");
  const TempFolder out;
  for (const char* type :
       {"Q8_0", "Q6_K", "Q5_K_S", "Q5_0", "Q4_K_S", "Q4_0", "Q4_1", "IQ4_NL", "Q3_K_S", "Q2_K"}) {
    CAPTURE(type);
    const auto reference = open_model(*dir / type / "model.gguf");
    const auto ours = quantized(*exact, type, out.path() / "q.gguf");
    std::map<DType, std::pair<double, double>> sums;  // squared errors of ours and of theirs
    for (const TensorView& tensor : exact->tensors()) {
      const TensorView* a = ours->find_tensor(tensor.name);
      const TensorView* b = reference->find_tensor(tensor.name);
      REQUIRE(a != nullptr);
      REQUIRE(b != nullptr);
      if (a->type != b->type || traits(a->type).block_size == 1) continue;
      const auto n = static_cast<double>(tensor.elements());
      sums[a->type].first += n * std::pow(rms_difference(*a, tensor), 2);
      sums[a->type].second += n * std::pow(rms_difference(*b, tensor), 2);
    }
    REQUIRE_FALSE(sums.empty());
    for (const auto& [dtype, errors] : sums) {
      const double ratio = std::sqrt(errors.first / errors.second);
      UNSCOPED_INFO(fmt::format("{}: {} {:.4f}", type, traits(dtype).name, ratio));
      CHECK(ratio < 1.005);
      CHECK(ratio > 0.5);
    }
  }
}

TEST_CASE("what is written does not depend on the threads") {
  const auto dir = shared_dir("reference/quant");
  if (!dir) return;
  const auto exact = open_model(*dir / "F16/model.gguf");
  const TempFolder out;
  quantized(*exact, "Q4_K_M", out.path() / "one.gguf", 1);
  quantized(*exact, "Q4_K_M", out.path() / "three.gguf", 3);
  CHECK(content(out.path() / "one.gguf") == content(out.path() / "three.gguf"));
}

TEST_CASE("a file written in its own type has the same weights bit by bit") {
  const auto dir = shared_dir("reference/quant");
  if (!dir) return;
  const TempFolder out;
  for (const char* type : {"F16", "BF16", "Q8_0"}) {
    CAPTURE(type);
    const auto before = open_model(*dir / type / "model.gguf");
    const auto after = quantized(*before, type, out.path() / "same.gguf");
    REQUIRE(after->tensors().size() == before->tensors().size());
    for (const TensorView& tensor : before->tensors()) {
      const TensorView* copy = after->find_tensor(tensor.name);
      REQUIRE(copy != nullptr);
      CHECK(copy->type == tensor.type);
      CHECK(
          std::equal(copy->data.begin(), copy->data.end(), tensor.data.begin(), tensor.data.end()));
    }
    CHECK(after->metadata() == before->metadata());
  }
}

TEST_CASE("experts that lie apart come together and q rows and biases change their order") {
  GgufWriter writer = small_model();
  writer.add_f32_tensor("blk.0.ffn_gate.1.weight", {32, 2}, std::vector<float>(64, 1.0F));
  writer.add_f32_tensor("blk.0.ffn_gate.0.weight", {32, 2}, std::vector<float>(64, 0.0F));
  writer.add_f32_tensor("blk.0.attn_q.bias", {16}, counted(16));
  std::vector<float> rows;
  for (int r = 0; r < 16; ++r) rows.insert(rows.end(), 32, static_cast<float>(r));
  writer.add_f32_tensor("blk.0.attn_k.weight", {32, 16}, rows);
  const TempFile file = writer.write_temp();
  const TempFolder out;
  const auto written = quantized(*open_model(file.path()), "F32", out.path() / "o.gguf");

  CHECK(written->find_tensor("blk.0.ffn_gate.0.weight") == nullptr);
  const TensorView* experts = written->find_tensor("blk.0.ffn_gate_exps.weight");
  REQUIRE(experts != nullptr);
  CHECK(experts->shape == std::vector<std::int64_t>{32, 2, 2});
  CHECK(values_of(*experts)[63] == 0.0F);
  CHECK(values_of(*experts)[64] == 1.0F);
  // Heads of 8: row 2i is row i of the halves, row 2i+1 is row i + 4.
  const std::vector<float> order = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
  CHECK(values_of(*written->find_tensor("blk.0.attn_q.bias")) == order);
  const std::vector<float> k = values_of(*written->find_tensor("blk.0.attn_k.weight"));
  for (std::size_t r = 0; r < 16; ++r) CHECK(k[r * 32 + 5] == order[r]);
}

TEST_CASE("recipes choose types by name place and shape") {
  const ModelToQuantize model{.num_layers = 16, .tied = false};
  const auto type = [&](std::string_view recipe, std::string_view name,
                        const std::vector<std::int64_t>& shape, DType source = DType::kF16) {
    return quantized_type(*find_quantize_recipe(recipe), model, {name, shape, source});
  };
  const std::vector<std::int64_t> wide = {256, 8};
  CHECK(type("Q4_K_M", "blk.5.attn_q.weight", wide) == DType::kQ4_K);
  CHECK(type("Q4_K_M", "blk.0.attn_v.weight", wide) == DType::kQ6_K);
  CHECK(type("Q4_K_M", "blk.2.attn_v.weight", wide) == DType::kQ4_K);
  CHECK(type("Q4_K_M", "blk.4.ffn_down_exps.weight", wide) == DType::kQ6_K);
  CHECK(type("Q4_K_M", "blk.15.ffn_down.weight", wide) == DType::kQ6_K);
  CHECK(type("q4_k_m", "output.weight", wide) == DType::kQ6_K);
  CHECK(type("Q4_K", "token_embd.weight", wide) == DType::kQ4_K);
  CHECK(type("Q4_K_M", "blk.0.attn_norm.weight", {256}, DType::kF32) == DType::kF32);
  CHECK(type("Q4_K_M", "blk.0.ffn_gate_inp.weight", wide) == DType::kF32);
  CHECK(type("Q4_K_M", "blk.5.attn_q.weight", {96, 8}) == DType::kQ5_0);
  CHECK(type("Q6_K", "blk.5.attn_q.weight", {96, 8}) == DType::kQ8_0);
  CHECK(type("Q4_0", "blk.5.attn_q.weight", {172, 8}) == DType::kF16);
  CHECK(type("F32", "blk.5.attn_q.weight", wide, DType::kQ4_0) == DType::kQ4_0);
  CHECK(type("q8-full-embedding", "token_embd.weight", wide, DType::kBF16) == DType::kBF16);
  CHECK(type("q8-full-embedding", "output.weight", wide, DType::kF32) == DType::kF32);
  CHECK(type("q8-full-embedding", "blk.5.attn_q.weight", wide) == DType::kQ8_0);
  CHECK(quantized_type(*find_quantize_recipe("Q4_K_M"), {.num_layers = 2},
                       {"blk.1.attn_v.weight", wide, DType::kF16}) == DType::kQ6_K);
  CHECK(find_quantize_recipe("Q9") == nullptr);
}

TEST_CASE("weights that are not numbers stop a quantisation and leave no file") {
  GgufWriter writer = small_model();
  std::vector<float> values(64, 1.0F);
  values[40] = std::numeric_limits<float>::quiet_NaN();
  writer.add_f32_tensor("blk.0.attn_v.weight", {32, 2}, values);
  const TempFile file = writer.write_temp();
  const TempFolder out;
  CHECK_THROWS_WITH(quantized(*open_model(file.path()), "Q8_0", out.path() / "o.gguf"),
                    Contains("blk.0.attn_v.weight") && Contains("not numbers"));
  CHECK(fs::is_empty(out.path()));
}

TEST_CASE("experts that are missing or differ are refused") {
  GgufWriter missing = small_model();
  missing.add_f32_tensor("blk.0.ffn_up.1.weight", {32, 1}, std::vector<float>(32));
  const TempFile first = missing.write_temp();
  CHECK_THROWS_WITH(plan_quantize(*open_model(first.path()), *find_quantize_recipe("F16")),
                    Contains("expert 0 is missing"));
  GgufWriter differing = small_model();
  differing.add_f32_tensor("blk.0.ffn_up.0.weight", {32, 1}, std::vector<float>(32));
  differing.add_f32_tensor("blk.0.ffn_up.1.weight", {32, 2}, std::vector<float>(64));
  const TempFile second = differing.write_temp();
  CHECK_THROWS_WITH(plan_quantize(*open_model(second.path()), *find_quantize_recipe("F16")),
                    Contains("expert 1 has another shape"));
}
