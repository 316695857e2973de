// The logits of a sequence depend on nothing but its tokens, to the last bit.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <string>

#include "tests/engine/backend/cpu_rig.hpp"
#include "tests/support/reference_cases.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// One sequence in a batch, fed in pieces of random length.
struct Fed {
  std::vector<TokenId> tokens;
  std::vector<BlockId> table;
  std::size_t done = 0;
};

/// Feeds all sequences to their end, each step a batch of some of them in random order with
/// pieces of random length. Returns the logits of `sequences[0]`.
std::vector<float> logits_in_company(CpuRig& rig, std::vector<Fed> sequences, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto vocab = static_cast<std::size_t>(rig.config.vocab_size);
  for (Fed& s : sequences) s.table = rig.take_blocks(s.tokens.size());
  std::vector<float> wanted;
  while (sequences[0].done < sequences[0].tokens.size()) {
    std::vector<std::size_t> order(sequences.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    StepBatch batch;
    std::size_t first_wanted = 0;
    std::size_t num_wanted = 0;
    for (const std::size_t i : order) {
      Fed& s = sequences[i];
      if (s.done == s.tokens.size() || (i != 0 && random() % 4 == 0)) continue;
      const std::size_t n = std::min<std::size_t>(random() % 3 == 0 ? 1 : 1 + random() % 23,
                                                  s.tokens.size() - s.done);
      if (i == 0) {
        first_wanted = static_cast<std::size_t>(batch.num_tokens());
        num_wanted = n;
      }
      StepSlice slice;
      slice.sequence = i;
      slice.first_position = static_cast<Position>(s.done);
      slice.tokens.assign(s.tokens.begin() + static_cast<std::ptrdiff_t>(s.done),
                          s.tokens.begin() + static_cast<std::ptrdiff_t>(s.done + n));
      slice.blocks = s.table;
      batch.slices.push_back(std::move(slice));
      s.done += n;
    }
    const std::vector<float> all = rig.backend.logits(batch);
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(first_wanted * vocab);
    wanted.insert(wanted.end(), from, from + static_cast<std::ptrdiff_t>(num_wanted * vocab));
  }
  for (const Fed& s : sequences) rig.give_blocks(s.table);
  return wanted;
}

std::vector<TokenId> random_tokens(std::size_t n, std::int32_t vocab, std::mt19937& random) {
  std::vector<TokenId> tokens(n);
  for (TokenId& t : tokens) t = static_cast<TokenId>(random() % static_cast<std::uint32_t>(vocab));
  return tokens;
}

const char* const kModels[] = {"reference/models/llama-gqa", "reference/models/stories260K",
                               "reference/models/gemma3",    "reference/models/gpt-oss",
                               "reference/models/qwen2moe",  "reference/models/gptneox",
                               "reference/quant/Q8_0",       "reference/quant/BF16"};

}  // namespace

TEST_CASE("logits do not depend on chunks or company or block numbers or threads") {
  for (const char* folder : kModels) {
    const auto dir = shared_dir(folder);
    if (!dir) return;
    for (const DType kv : {DType::kF32, DType::kF16}) {
      CpuBackendOptions options = f32_kv(1);
      options.kv_type_k = options.kv_type_v = kv;
      std::mt19937 random(7);
      CpuRig first(*dir / "model.gguf", options);
      const std::vector<TokenId> tokens = random_tokens(200, first.config.vocab_size, random);
      const std::vector<float> expected = first.logits(tokens, 512);
      for (const std::int32_t threads : {1, 2, 3}) {
        options.threads = threads;
        CpuRig rig(*dir / "model.gguf", options);
        rig.shuffle(static_cast<std::uint32_t>(threads));
        CAPTURE(folder, threads, static_cast<int>(kv));
        for (const std::size_t chunk : {1U, 7U, 64U, 200U}) {
          CAPTURE(chunk);
          CHECK(same_bits(rig.logits(tokens, chunk), expected));
        }
        std::vector<Fed> company(8);
        company[0].tokens = tokens;
        for (std::size_t i = 1; i < company.size(); ++i)
          company[i].tokens = random_tokens(100 + random() % 200, rig.config.vocab_size, random);
        CHECK(same_bits(logits_in_company(rig, company, 11), expected));
      }
    }
  }
}

TEST_CASE("logits do not depend on the block size") {
  const auto dir = shared_dir("reference/models/llama-gqa");
  if (!dir) return;
  std::mt19937 random(3);
  const std::vector<TokenId> tokens = random_tokens(150, 331, random);
  std::vector<float> expected;
  for (const std::int32_t block_size : {16, 1, 5, 8, 32, 100}) {
    CAPTURE(block_size);
    CpuRig rig(*dir / "model.gguf", f32_kv(), block_size);
    const std::vector<float> got = rig.logits(tokens, 33);
    if (expected.empty()) expected = got;
    CHECK(same_bits(got, expected));
  }
}

TEST_CASE("a step that samples more rows than fit at a time draws the same tokens") {
  const auto dir = shared_dir("reference/models/llama-gqa");
  if (!dir) return;
  const auto run = [&](std::int32_t rows_at_a_time) {
    CpuBackendOptions options = f32_kv();
    options.max_sampled_rows = rows_at_a_time;
    CpuRig rig(*dir / "model.gguf", options);
    StepBatch batch;
    for (TokenId i = 0; i < 10; ++i) {
      auto params = std::make_shared<SamplingParams>();
      params->seed = static_cast<std::uint64_t>(i);
      StepSlice slice;
      slice.sequence = static_cast<SequenceId>(i);
      slice.tokens = {i, i + 1, i + 2};
      slice.blocks = rig.take_blocks(3);
      slice.sample = i != 4;
      slice.sampling = params;
      batch.slices.push_back(std::move(slice));
    }
    std::vector<TokenId> drawn;
    for (const SliceResult& r : rig.backend.step(batch).slices) {
      CHECK(r.error.empty());
      CHECK(r.token.has_value() == (r.sequence != 4));
      drawn.push_back(r.token ? r.token->id : -1);
    }
    return drawn;
  };
  const std::vector<TokenId> expected = run(64);
  CHECK(run(3) == expected);
  CHECK(run(1) == expected);
}
