// Encoder-decoder models on the CPU backend: against their definition, and the law.
#include <catch2/catch.hpp>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/model/encoder_config.hpp"
#include "engine/model/relative_bias.hpp"
#include "tests/engine/backend/cpu_rig.hpp"
#include "tests/support/t5_model.hpp"

using namespace sluice;
using namespace sluice::test;
using Catch::Matchers::Contains;

namespace {

using Tokens = std::vector<TokenId>;

/// A sequence of its own: an input, then what the decoder reads.
struct Case {
  Tokens input;
  Tokens tokens;
};

StepSlice slice_of(const Case& c, std::size_t first, std::size_t count,
                   const std::vector<BlockId>& table) {
  Tokens all = c.input;
  all.insert(all.end(), c.tokens.begin(), c.tokens.end());
  StepSlice slice;
  slice.first_position = static_cast<Position>(first);
  slice.tokens.assign(all.begin() + static_cast<std::ptrdiff_t>(first),
                      all.begin() + static_cast<std::ptrdiff_t>(first + count));
  slice.blocks = table;
  slice.encoder_positions = static_cast<Position>(c.input.size());
  if (first < c.input.size()) slice.encoder_input = c.input;
  return slice;
}

/// Logits of all decoder tokens; the input and `chunk` tokens at first, then `chunk` at a time.
std::vector<float> run(CpuRig& rig, const Case& c, std::size_t chunk) {
  const std::vector<BlockId> table = rig.take_blocks(c.input.size() + c.tokens.size());
  std::vector<float> all;
  std::size_t position = 0;
  for (std::size_t i = 0; i < c.tokens.size(); i += chunk) {
    const std::size_t end = c.input.size() + std::min(i + chunk, c.tokens.size());
    const std::vector<float> part =
        rig.backend.logits({0, {slice_of(c, position, end - position, table)}});
    all.insert(all.end(), part.begin(), part.end());
    position = end;
  }
  rig.give_blocks(table);
  return all;
}

double error_against(const T5Model& model, const Case& c, const std::vector<float>& logits) {
  double worst = 0;
  std::size_t at = 0;
  for (const auto& row : model.logits(c.input, c.tokens))
    for (const double expected : row)
      worst = std::max(worst, std::abs(expected - static_cast<double>(logits.at(at++))));
  REQUIRE(at == logits.size());
  return worst;
}

Case random_case(std::uint32_t seed, std::size_t input, std::size_t tokens) {
  std::mt19937 random(seed);
  Case c{random_tokens(random, input - 1, 60), random_tokens(random, tokens - 1, 60)};
  c.input.push_back(1);
  c.tokens.insert(c.tokens.begin(), 0);
  return c;
}

T5Shape form(bool gated, bool tied) {
  T5Shape shape;
  shape.gated = gated;
  shape.tied = tied;
  return shape;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("logits of an encoder-decoder follow its definition in both file forms") {
  for (const bool gated : {false, true}) {
    for (const bool tied : {false, true}) {
      CAPTURE(gated, tied);
      const T5Model model(form(gated, tied));
      const TempFile gguf(model.gguf_bytes());
      const TempFolder folder;
      model.write_folder(folder);
      CpuRig from_gguf(gguf.path());
      CpuRig from_folder(folder.path());
      CHECK(from_gguf.config.num_layers == 3);
      CHECK(from_gguf.config.encoder.num_layers == 2);
      for (const auto& [input, tokens] : {std::pair{7, 5}, {150, 20}, {1, 1}, {33, 150}}) {
        const Case c =
            random_case(static_cast<std::uint32_t>(input), static_cast<std::size_t>(input),
                        static_cast<std::size_t>(tokens));
        CAPTURE(input, tokens);
        const std::vector<float> logits = run(from_gguf, c, 512);
        CHECK(error_against(model, c, logits) < 2e-4);
        CHECK(same_bits(logits, run(from_folder, c, 512)));
      }
    }
  }
}

TEST_CASE("a folder may have other distances and as many decoder as encoder layers") {
  T5Shape shape = form(true, false);
  shape.buckets = 8;
  shape.distance = 20;
  shape.encoder_layers = shape.decoder_layers = 2;
  const T5Model model(shape);
  const TempFolder folder;
  model.write_folder(folder);
  CpuRig rig(folder.path());
  const Case c = random_case(3, 60, 40);
  CHECK(error_against(model, c, run(rig, c, 512)) < 2e-4);
}

TEST_CASE("an output layer that repeats the embedding is scaled like one that is left out") {
  const T5Model tied(form(false, true));
  const TempFile file(tied.gguf_bytes());
  const auto source = open_model(file.path());
  CHECK(read_model_config(*source).options.logit_scale == Approx(1.0 / std::sqrt(48.0)));
  const TempFile untied(T5Model(form(false, false)).gguf_bytes());
  CHECK(read_model_config(*open_model(untied.path())).options.logit_scale == 1.0F);
}

TEST_CASE("buckets of relative positions") {
  const RelativePositions usual{32, 128};
  CHECK(relative_bucket(usual, 0, true) == 0);
  CHECK(relative_bucket(usual, -7, true) == 7);
  CHECK(relative_bucket(usual, 7, true) == 23);
  CHECK(relative_bucket(usual, 40, true) == 28);
  CHECK(relative_bucket(usual, -16, true) == 10);
  CHECK(relative_bucket(usual, -127, true) == 15);
  CHECK(relative_bucket(usual, 5000, true) == 31);
  CHECK(relative_bucket(usual, 3, false) == 0);
  CHECK(relative_bucket(usual, -15, false) == 15);
  CHECK(relative_bucket(usual, -128, false) == 31);
}

TEST_CASE("an answer of an encoder-decoder depends on chunks threads blocks and batch in no bit") {
  const T5Model model(form(true, true));
  const TempFile file(model.gguf_bytes());
  const std::vector<Case> cases = {random_case(1, 100, 30), random_case(2, 9, 41),
                                   random_case(3, 64, 3), random_case(4, 17, 70)};
  std::vector<std::vector<float>> expected;
  CpuRig rig(file.path(), f32_kv(1));
  for (const Case& c : cases) expected.push_back(run(rig, c, 512));

  for (const std::int32_t threads : {1, 2, 3}) {
    for (const std::size_t chunk : {1U, 2U, 7U, 64U}) {
      CpuRig other(file.path(), f32_kv(threads), chunk == 7 ? 5 : 16);
      other.shuffle(static_cast<std::uint32_t>(chunk));
      for (std::size_t i = 0; i < cases.size(); ++i) {
        CAPTURE(threads, chunk, i);
        CHECK(same_bits(run(other, cases[i], chunk), expected[i]));
      }
    }
  }

  // All at once, with inputs that do not fit through the encoder together, then token by token.
  CpuBackendOptions options = f32_kv(2);
  options.max_batch_tokens = 160;
  CpuRig together(file.path(), options);
  std::vector<std::vector<BlockId>> tables;
  std::vector<std::vector<float>> got(cases.size());
  for (const Case& c : cases)
    tables.push_back(together.take_blocks(c.input.size() + c.tokens.size()));
  for (std::size_t step = 0; step < 70; ++step) {
    StepBatch batch;
    std::vector<std::size_t> who;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Case& c = cases[i];
      // One enters later: it is encoded while others decode.
      const std::size_t begin = i == 2 ? 5 : 0;
      if (step < begin || step - begin >= c.tokens.size()) continue;
      const std::size_t n = step - begin;
      const std::size_t first = n == 0 ? 0 : c.input.size() + n;
      batch.slices.push_back(slice_of(c, first, c.input.size() + n + 1 - first, tables[i]));
      who.push_back(i);
    }
    const std::vector<float> logits = together.backend.logits(batch);
    for (std::size_t s = 0; s < who.size(); ++s)
      got[who[s]].insert(got[who[s]].end(), logits.begin() + static_cast<std::ptrdiff_t>(s * 60),
                         logits.begin() + static_cast<std::ptrdiff_t>((s + 1) * 60));
  }
  for (std::size_t i = 0; i < cases.size(); ++i) CHECK(same_bits(got[i], expected[i]));
}

TEST_CASE("a later part of an encoder's input is computed from the whole of it") {
  const T5Model model(form(false, true));
  const TempFile file(model.gguf_bytes());
  CpuRig rig(file.path());
  const Case c = random_case(5, 50, 4);
  const std::vector<float> expected = run(rig, c, 512);
  // The first two blocks are there, as from a prefix cache; the rest is computed anew.
  const std::vector<BlockId> table = rig.take_blocks(54);
  rig.backend.logits({0, {slice_of(c, 0, 51, table)}});
  CHECK(same_bits(rig.backend.logits({0, {slice_of(c, 32, 22, table)}}), expected));
}

TEST_CASE("quantised weights and KV types stay close to an encoder-decoder in full precision") {
  const T5Model model(form(true, false));
  const TempFile file(model.gguf_bytes());
  const Case c = random_case(6, 70, 30);
  for (const DType type : {DType::kF16, DType::kBF16, DType::kQ8_0}) {
    CpuBackendOptions options = f32_kv();
    options.kv_type_k = options.kv_type_v = type;
    CpuRig rig(file.path(), options);
    CHECK(error_against(model, c, run(rig, c, 512)) < 0.2);
    CHECK(same_bits(run(rig, c, 1), run(rig, c, 512)));
  }
}

TEST_CASE("slices of an encoder-decoder are checked") {
  const T5Model model(form(false, true));
  const TempFile file(model.gguf_bytes());
  CpuBackendOptions options = f32_kv();
  options.max_batch_tokens = 32;
  CpuRig rig(file.path(), options);
  const Case c = random_case(7, 20, 3);
  const std::vector<BlockId> table = rig.take_blocks(64);
  const auto fault = [&](StepSlice slice) {
    return rig.backend.step({0, {std::move(slice)}}).slices.at(0).error;
  };
  CHECK(fault(slice_of(c, 0, 20, table)).empty());
  StepSlice wrong = slice_of(c, 0, 23, table);
  wrong.encoder_input.pop_back();
  CHECK_THAT(fault(wrong), Contains("whole input of 20"));
  CHECK_THAT(fault(slice_of(c, 0, 15, table)), Contains("5 tokens before the end"));
  wrong = slice_of(c, 0, 23, table);
  wrong.encoder_positions = 0;
  CHECK_THAT(fault(wrong), Contains("no input for the encoder"));
  wrong = slice_of(c, 0, 23, table);
  wrong.encoder_input[3] = 60;
  CHECK_THAT(fault(wrong), Contains("outside the vocabulary"));
  wrong = slice_of(c, 0, 20, table);
  wrong.sample = true;
  CHECK_THAT(fault(wrong), Contains("before the decoder has started"));
  CHECK_THAT(fault(slice_of(random_case(8, 33, 1), 0, 34, table)), Contains("33 tokens, more"));
}

TEST_CASE("what an encoder-decoder can not do is said") {
  const T5Model model(form(false, true));
  const TempFile file(model.gguf_bytes());
  CpuBackendOptions options = f32_kv();
  options.sparse = {64, 4};
  CHECK_THROWS_WITH(CpuRig(file.path(), options), Contains("Sparse attention works with models"));
  const ModelConfig config = read_model_config(*open_model(file.path()));
  CHECK(config.context_length == 1024);
  CHECK(longest_input(config, 512, 1024) == 512);
  CHECK(longest_input(config, 128, 1024) == 128);
  CHECK(longest_input(config, 512, 100) == 98);
  CHECK_THROWS_AS(longest_input(config, 512, 2), Error);
}
