// Long contexts, whose attention is divided among threads: the same logits, to the last bit.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <string>

#include "tests/engine/backend/cpu_rig.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr std::size_t kTokens = 2070;

CpuRig long_rig(const std::filesystem::path& model, std::int32_t threads, DType kv) {
  CpuBackendOptions options = f32_kv(threads);
  options.kv_type_k = options.kv_type_v = kv;
  const auto source = open_model(model);
  ModelConfig config = read_model_config(*source);
  config.context_length = 4096;
  return {source, config, options, 32};
}

StepSlice piece(const std::vector<TokenId>& tokens, std::size_t begin, std::size_t end,
                const std::vector<BlockId>& table, SequenceId sequence) {
  StepSlice slice;
  slice.sequence = sequence;
  slice.first_position = static_cast<Position>(begin);
  slice.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                      tokens.begin() + static_cast<std::ptrdiff_t>(end));
  slice.blocks = table;
  return slice;
}

/// Logits of the positions 1020 .. 1029 and from 2043 on. Those are fed one by one when `single`.
/// In company another sequence of as many tokens goes along.
std::vector<float> logits(CpuRig& rig, const std::vector<TokenId>& tokens, bool single,
                          bool company) {
  const std::vector<TokenId> other(tokens.rbegin(), tokens.rend());
  const std::vector<BlockId> table = rig.take_blocks(kTokens);
  const std::vector<BlockId> other_table = rig.take_blocks(company ? kTokens : 0);
  std::vector<float> wanted;
  for (std::size_t at = 0; at < kTokens;) {
    const bool kept = (at >= 1020 && at < 1030) || at >= 2043;
    const std::size_t border = at < 1020 ? 1020 : at < 1030 ? 1030 : at < 2043 ? 2043 : kTokens;
    const std::size_t end = kept && single ? at + 1 : std::min(border, at + 250);
    StepBatch batch;
    batch.slices.push_back(piece(tokens, at, end, table, 0));
    if (company) batch.slices.push_back(piece(other, at, end, other_table, 1));
    const std::vector<float> all = rig.backend.logits(batch);
    const std::size_t mine = (end - at) * static_cast<std::size_t>(rig.config.vocab_size);
    if (kept)
      wanted.insert(wanted.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(mine));
    at = end;
  }
  rig.give_blocks(table);
  rig.give_blocks(other_table);
  return wanted;
}

}  // namespace

TEST_CASE("logits behind long contexts do not depend on threads or chunks or company") {
  for (const char* folder : {"falcon", "gemma", "gemma3", "gpt-oss", "llama-gqa"}) {
    const auto dir = shared_dir(std::string("reference/models/") + folder);
    if (!dir) return;
    for (const DType kv : {DType::kF16, DType::kQ8_0}) {
      CpuRig one = long_rig(*dir / "model.gguf", 1, kv);
      std::mt19937 random(9);
      std::vector<TokenId> tokens(kTokens);
      for (TokenId& t : tokens)
        t = static_cast<TokenId>(random() % static_cast<std::uint32_t>(one.config.vocab_size));
      const std::vector<float> expected = logits(one, tokens, false, false);
      for (const std::int32_t threads : {1, 2, 3, 8}) {
        CAPTURE(folder, threads, static_cast<int>(kv), one.config.num_kv_heads);
        CpuRig rig = long_rig(*dir / "model.gguf", threads, kv);
        rig.shuffle(static_cast<std::uint32_t>(threads));
        for (const bool company : {false, true}) {
          const std::vector<float> got = logits(rig, tokens, true, company);
          REQUIRE(got.size() == expected.size());
          CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
        }
      }
    }
  }
}
