// What each architecture's name and keys mean.
#include "engine/model/architectures.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>

#include "engine/base/error.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/rope_table.hpp"
#include "tests/support/gguf_writer.hpp"

namespace sluice {
namespace {

using test::GgufWriter;

/// A file of `layers` layers with the keys that all architectures have, and `more`.
ModelConfig read(
    const std::string& name, std::uint32_t layers,
    const std::function<void(GgufWriter&)>& more = [](GgufWriter&) {}) {
  GgufWriter writer;
  writer.add_string("general.architecture", name);
  writer.add_u32(name + ".block_count", layers);
  writer.add_u32(name + ".embedding_length", 64);
  writer.add_u32(name + ".feed_forward_length", 96);
  writer.add_u32(name + ".attention.head_count", 8);
  writer.add_u32(name + ".context_length", 512);
  writer.add_f32(name + ".attention.layer_norm_rms_epsilon", 1e-6F);
  writer.add_f32(name + ".attention.layer_norm_epsilon", 1e-5F);
  more(writer);
  writer.add_f32_tensor("token_embd.weight", {64, 4}, std::vector<float>(256));
  for (std::uint32_t i = 0; i < layers; ++i)
    writer.add_f32_tensor("blk." + std::to_string(i) + ".attn_norm.weight", {64},
                          std::vector<float>(64));
  const test::TempFile file = writer.write_temp();
  return read_model_config(*open_model(file.path()));
}

std::vector<Position> windows(const ModelConfig& config) {
  std::vector<Position> all;
  for (std::int32_t i = 0; i < config.num_layers; ++i) all.push_back(config.window(i));
  return all;
}

std::vector<std::int32_t> ropes(const ModelConfig& config) {
  std::vector<std::int32_t> all;
  for (std::int32_t i = 0; i < config.num_layers; ++i) all.push_back(config.layer(i).rope);
  return all;
}

void add_window(GgufWriter& writer, const std::string& name) {
  writer.add_u32(name + ".attention.sliding_window", 32);
}

using Windows = std::vector<Position>;
using Ropes = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("every architecture reads a plain file of its own") {
  for (const Architecture& architecture : architectures()) {
    const std::string name(architecture.name);
    const ModelConfig config = read(name, 2, [&](GgufWriter& writer) {
      if (architecture.encoder) writer.add_u32(name + ".attention.relative_buckets_count", 32);
    });
    CHECK(config.architecture == architecture.name);
    CHECK(config.layers.size() == 2);
    CHECK(config.norm_epsilon == (architecture.options.norm == NormKind::kRms ? 1e-6F : 1e-5F));
  }
}

TEST_CASE("windows follow the pattern of the architecture") {
  const auto with_window = [](const std::string& name, std::uint32_t layers) {
    return read(name, layers, [&](GgufWriter& w) { add_window(w, name); });
  };
  CHECK(windows(with_window("gemma2", 4)) == Windows{32, 0, 32, 0});
  CHECK(windows(with_window("gpt-oss", 3)) == Windows{32, 0, 32});
  CHECK(windows(with_window("gemma3", 7)) == Windows{32, 32, 32, 32, 32, 0, 32});
  CHECK(windows(with_window("cohere2", 5)) == Windows{32, 32, 32, 0, 32});
  CHECK(windows(with_window("olmo2", 4)) == Windows{32, 32, 32, 0});
  CHECK(windows(with_window("llama", 2)) == Windows{0, 0});
  CHECK(windows(with_window("phi3", 2)) == Windows{0, 0});
  CHECK(windows(read("gemma2", 2)) == Windows{4096, 0});
  CHECK(windows(read("gemma3", 2)) == Windows{0, 0});
  CHECK(with_window("gemma2", 1).widest_window() == 32);
  CHECK(with_window("gemma2", 2).widest_window() == 0);
  CHECK(ModelConfig{}.widest_window() == 0);
}

TEST_CASE("a pattern of its own wins over the architecture's") {
  const auto with = [](const std::function<void(GgufWriter&)>& more) {
    return windows(read("gemma3", 4, [&](GgufWriter& w) {
      add_window(w, "gemma3");
      more(w);
    }));
  };
  const std::string key = "gemma3.attention.sliding_window_pattern";
  CHECK(with([&](GgufWriter& w) { w.add_u32(key, 2); }) == Windows{32, 0, 32, 0});
  CHECK(with([&](GgufWriter& w) {
          w.add_bools(key, {false, true, true, false});
        }) == Windows{0, 32, 32, 0});
  CHECK(with([&](GgufWriter& w) { w.add_i32s(key, {0, 0, 0, 1}); }) == Windows{0, 0, 0, 32});
  CHECK_THROWS_AS(with([&](GgufWriter& w) { w.add_bools(key, {true}); }), Error);
  CHECK_THROWS_AS(with([&](GgufWriter& w) { w.add_string(key, "x"); }), Error);
}

TEST_CASE("a source can ask for a window on all layers and for the pairing of halves") {
  const ModelConfig config = read("llama", 2, [](GgufWriter& w) {
    add_window(w, "llama");
    w.add_bool("sluice.sliding_window_all_layers", true);
    w.add_bool("sluice.rope_halves", true);
  });
  CHECK(windows(config) == Windows{32, 32});
  CHECK(config.options.rope_layout == RopeLayout::kHalves);
}

TEST_CASE("layers can have another rope or none") {
  CHECK(ropes(read("smollm3", 5)) == Ropes{0, 0, 0, -1, 0});
  CHECK(ropes(read("gpt2", 2)) == Ropes{-1, -1});
  const ModelConfig cohere = read("cohere2", 4, [](GgufWriter& w) { add_window(w, "cohere2"); });
  CHECK(ropes(cohere) == Ropes{0, 0, 0, -1});
  const ModelConfig gemma = read("gemma3", 6, [](GgufWriter& w) {
    add_window(w, "gemma3");
    w.add_f32("gemma3.rope.freq_base", 1e6F);
    w.add_string("gemma3.rope.scaling.type", "linear");
    w.add_f32("gemma3.rope.scaling.factor", 8.0F);
  });
  CHECK(ropes(gemma) == Ropes{1, 1, 1, 1, 1, 0});
  REQUIRE(gemma.ropes.size() == 2);
  CHECK(gemma.ropes[0].base == 1e6F);
  CHECK(gemma.ropes[0].factor == 8.0F);
  CHECK(gemma.ropes[1].base == 10000.0F);
  CHECK(gemma.ropes[1].scaling == RopeScaling::kNone);
}

TEST_CASE("scales and caps have defaults and keys") {
  const DecoderOptions gemma2 = read("gemma2", 2).options;
  CHECK(gemma2.embedding_scale == 8.0F);
  CHECK(gemma2.attention_softcap == 50.0F);
  CHECK(gemma2.final_softcap == 30.0F);
  CHECK(gemma2.attention_scale == 0.0F);
  CHECK(read("gemma2", 46).options.attention_scale == Approx(1.0 / std::sqrt(8.0)));
  const auto scaled = [](const std::string& name) {
    return read(name, 2,
                [&](GgufWriter& w) {
                  w.add_f32(name + ".logit_scale", 4.0F);
                  w.add_f32(name + ".residual_scale", 0.5F);
                  w.add_f32(name + ".attention.scale", 0.0F);
                })
        .options;
  };
  CHECK(scaled("granite").logit_scale == 0.25F);
  CHECK(scaled("cohere2").logit_scale == 4.0F);
  CHECK(scaled("granite").residual_scale == 0.5F);
  CHECK(scaled("granite").attention_scale == 0.0F);  // 0 says: unchanged
  CHECK_THROWS_AS(
      read("granite", 2, [](GgufWriter& w) { w.add_f32("granite.logit_scale", -1.0F); }), Error);
}

TEST_CASE("blocks are parallel where keys or tensors say so") {
  CHECK(read("gptneox", 2).options.parallel_block);
  CHECK_FALSE(read("gptneox", 2, [](GgufWriter& w) {
                w.add_bool("gptneox.use_parallel_residual", false);
              }).options.parallel_block);
  CHECK(read("stablelm", 2).options.parallel_block);  // no ffn_norm
  CHECK_FALSE(read("stablelm", 1, [](GgufWriter& w) {
                w.add_f32_tensor("blk.0.ffn_norm.weight", {64}, std::vector<float>(64));
              }).options.parallel_block);
}

TEST_CASE("experts are counted and their weights shared out as the model was trained") {
  const auto experts = [](const std::string& name, bool with_key) {
    return read(name, 2,
                [&](GgufWriter& w) {
                  w.add_u32(name + ".expert_count", 8);
                  w.add_u32(name + ".expert_used_count", 2);
                  w.add_u32(name + ".expert_feed_forward_length", 40);
                  if (with_key) w.add_bool(name + ".expert_weights_norm", false);
                })
        .experts;
  };
  CHECK(experts("llama", false).count == 8);
  CHECK(experts("llama", false).used == 2);
  CHECK(experts("llama", false).ffn_size == 40);
  CHECK(experts("llama", false).weights == ExpertWeights::kShareOfChosen);
  CHECK(experts("qwen3moe", true).weights == ExpertWeights::kShareOfAll);
  CHECK(experts("qwen2moe", false).weights == ExpertWeights::kShareOfAll);
  CHECK(experts("gpt-oss", false).weights == ExpertWeights::kSoftmaxOfChosen);
}

TEST_CASE("yarn leaves fast pairs alone and divides slow ones") {
  RopeConfig rope;
  rope.scaling = RopeScaling::kYarn;
  rope.factor = 4.0F;
  rope.original_context = 4096;
  const RopeTable table = make_rope_table(rope, 128, {});
  const RopeTable plain = make_rope_table({}, 128, {});
  CHECK(table.magnitude == Approx(1.0 + 0.1 * std::log(4.0)));
  CHECK(table.frequencies.front() == plain.frequencies.front());
  CHECK(table.frequencies.back() == Approx(plain.frequencies.back() / 4.0));
  double before = 1.0;
  for (std::size_t i = 0; i < 64; ++i) {
    const double share = table.frequencies[i] / plain.frequencies[i];
    CHECK(share <= before);
    CHECK(share >= 0.25);
    before = share;
  }
}

TEST_CASE("an encoder has layers of its own and a longest input") {
  const auto with = [](std::uint32_t buckets, std::uint32_t distance, std::uint32_t start) {
    return read("t5", 4, [&](GgufWriter& writer) {
      writer.add_u32("t5.decoder_block_count", 2);
      writer.add_u32("t5.attention.relative_buckets_count", buckets);
      writer.add_u32("t5.attention.relative_max_distance", distance);
      writer.add_u32("t5.decoder_start_token_id", start);
    });
  };
  const ModelConfig config = with(32, 128, 3);
  CHECK(config.encoder.num_layers == 4);
  CHECK(config.num_layers == 2);
  CHECK(config.encoder.max_input == 512);
  CHECK(config.context_length == 1024);
  CHECK(config.encoder.decoder_start == 3);
  CHECK(config.relative_positions.buckets == 32);
  CHECK(config.options.activation == Activation::kRelu);
  CHECK(ropes(config) == Ropes{-1, -1});
  CHECK_THROWS_AS(with(32, 128, 4), Error);  // no such token
  CHECK_THROWS_AS(with(30, 128, 0), Error);  // not halves of halves
  CHECK_THROWS_AS(with(32, 16, 0), Error);   // single distances alone go farther
  CHECK_THROWS_AS(with(32, 1 << 20, 0), Error);
}

}  // namespace sluice
