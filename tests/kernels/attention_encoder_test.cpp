// What encoders and their decoders need: positions before a first one hidden, all rows seeing the
// same, and a bias by distance.
#include <catch2/catch.hpp>
#include <limits>

#include "tests/kernels/attention_sequence.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

constexpr std::size_t kPositions = 200;
const Shape kShapes[] = {{4, 4, 8}, {6, 2, 20}, {3, 3, 64}};

struct Case {
  std::size_t first_row;  ///< rows before it see nothing
  AttentionOptions options;
};

std::vector<Case> cases_for(const Shape& shape) {
  std::mt19937 random(5);
  std::vector<Case> cases;
  for (const std::size_t reach : {0U, 3U, 20U, 128U}) {
    const auto add = [&](std::size_t first_seen, std::size_t seen_end) {
      AttentionOptions options;
      options.first_seen = first_seen;
      options.seen_end = seen_end;
      options.bias_reach = reach;
      if (reach > 0) options.bias = random_floats(shape.heads * (2 * reach + 1), random);
      cases.push_back({first_seen, options});
    };
    for (const std::size_t first : {0U, 1U, 63U, 64U, 100U}) add(first, 0);
    for (const std::size_t end : {1U, 16U, 64U, 65U, 200U}) add(0, end);
  }
  return cases;
}

}  // namespace

TEST_CASE("attention of encoders and their decoders agrees with its definition") {
  for (const KernelTable* table : tables())
    for (const Shape& shape : kShapes)
      for (const auto& [first, options] : cases_for(shape)) {
        CAPTURE(isa_name(table->isa), shape.head_dim, options.first_seen, options.seen_end,
                options.bias_reach);
        const Sequence sequence(*table, shape, kPositions, 16, KvEncoding::kF32, 1, 2);
        std::vector<double> expected = sequence.expected(options);
        expected.erase(expected.begin(),
                       expected.begin() + static_cast<std::ptrdiff_t>(first * sequence.q_dim()));
        CHECK(worst_difference(sequence.attend(first, kPositions, kAttentionRows, options),
                               expected) < 4e-6);
      }
}

TEST_CASE("attention of encoders depends on neither rows nor chunks nor blocks") {
  for (const KernelTable* table : tables())
    for (const Shape& shape : kShapes)
      for (const auto& [first, options] : cases_for(shape)) {
        CAPTURE(isa_name(table->isa), shape.head_dim, options.first_seen, options.seen_end);
        const Sequence one(*table, shape, kPositions, 16, KvEncoding::kF16, 1, 2);
        const std::vector<float> whole = one.attend(first, kPositions, kAttentionRows, options);
        for (const std::size_t rows : {1U, 3U, 7U})
          CHECK(one.attend(first, kPositions, rows, options) == whole);
        const Sequence other(*table, shape, kPositions, 5, KvEncoding::kF16, 1, 9);
        CHECK(other.attend(first, kPositions, kAttentionRows, options) == whole);
        const std::vector<float> later = one.attend(170, kPositions, 32, options);
        CHECK(same_bits(later.data(), whole.data() + (170 - first) * one.q_dim(), later.size()));
      }
}

TEST_CASE("what an encoder or its decoder does not see has no influence") {
  const std::vector<float> nan(32, std::numeric_limits<float>::quiet_NaN());
  for (const KernelTable* table : tables()) {
    AttentionOptions later;
    later.first_seen = 70;
    AttentionOptions ends;
    ends.seen_end = 70;
    Sequence sequence(*table, {4, 2, 16}, kPositions, 16, KvEncoding::kF32, 1, 2);
    const std::vector<float> after = sequence.attend(70, kPositions, kAttentionRows, later);
    const std::vector<float> before = sequence.attend(0, kPositions, kAttentionRows, ends);
    for (const std::size_t p : {5U, 69U}) sequence.write(p, nan, nan);
    CHECK(sequence.attend(70, kPositions, kAttentionRows, later) == after);
    Sequence again(*table, {4, 2, 16}, kPositions, 16, KvEncoding::kF32, 1, 2);
    for (const std::size_t p : {70U, 120U}) again.write(p, nan, nan);
    CHECK(again.attend(0, kPositions, kAttentionRows, ends) == before);
  }
}
