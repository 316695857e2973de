// Windows, kept positions, soft caps and sinks.
#include <catch2/catch.hpp>
#include <limits>

#include "tests/kernels/attention_sequence.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

constexpr std::size_t kPositions = 200;
const Shape kShapes[] = {{8, 4, 8}, {3, 1, 20}, {6, 2, 64}};

std::vector<AttentionOptions> options_for(const Shape& shape) {
  std::vector<float> sinks;
  for (std::size_t h = 0; h < shape.heads; ++h) sinks.push_back(static_cast<float>(h) - 2.0F);
  return {{1, 0, 0.0F, {}},     {32, 0, 0.0F, {}},     {64, 0, 0.0F, {}},
          {70, 0, 0.0F, {}},    {199, 0, 0.0F, {}},    {500, 7, 0.0F, {}},
          {9, 4, 0.0F, {}},     {30, 65, 0.0F, {}},    {1, 1, 0.0F, {}},
          {0, 0, 1.5F, {}},     {0, 0, 0.0F, sinks},   {20, 3, 2.0F, sinks},
          {1, 0, 0.0F, {}, 1},  {10, 0, 0.0F, {}, 2},  {33, 0, 1.5F, sinks, 3},
          {64, 0, 0.0F, {}, 8}, {50, 0, 0.0F, {}, 70}, {500, 0, 0.0F, {}, 4}};
}

}  // namespace

TEST_CASE("attention options agree with their definition in double precision") {
  for (const KernelTable* table : tables())
    for (const Shape& shape : kShapes)
      for (const AttentionOptions& options : options_for(shape)) {
        CAPTURE(isa_name(table->isa), shape.head_dim, options.window, options.keep_first,
                options.softcap, options.sinks.size());
        const Sequence sequence(*table, shape, kPositions, 16, KvEncoding::kF32, 1, 2);
        CHECK(worst_difference(sequence.attend(0, kPositions, kAttentionRows, options),
                               sequence.expected(options)) < 3e-6);
      }
}

TEST_CASE("attention with options depends on neither rows nor chunks nor blocks") {
  for (const KernelTable* table : tables())
    for (const Shape& shape : kShapes)
      for (const AttentionOptions& options : options_for(shape)) {
        CAPTURE(isa_name(table->isa), shape.head_dim, options.window, options.keep_first);
        for (const KvEncoding encoding : {KvEncoding::kF16, KvEncoding::kQ4_0}) {
          const Sequence first(*table, shape, kPositions, 16, encoding, 1, 2);
          const std::vector<float> whole = first.attend(0, kPositions, kAttentionRows, options);
          for (const std::size_t rows : {1U, 3U, 7U})
            CHECK(first.attend(0, kPositions, rows, options) == whole);
          for (const std::size_t block_size : {1U, 5U, 16U, 64U}) {
            const Sequence other(*table, shape, kPositions, block_size, encoding, 1,
                                 static_cast<std::uint32_t>(block_size));
            CHECK(other.attend(0, kPositions, kAttentionRows, options) == whole);
          }
        }
      }
}

TEST_CASE("freed blocks are not looked at and change nothing") {
  for (const KernelTable* table : tables())
    for (const Shape& shape : kShapes)
      for (const AttentionOptions& options : options_for(shape))
        for (const std::size_t first : {33U, 100U, 140U, 199U}) {
          CAPTURE(isa_name(table->isa), options.window, options.keep_first, first);
          Sequence sequence(*table, shape, kPositions, 16, KvEncoding::kF32, 1, 2);
          const std::vector<float> whole = sequence.attend(0, kPositions, kAttentionRows, options);
          sequence.free_unseen(first, options);
          const std::vector<float> rest = sequence.attend(first, kPositions, 32, options);
          CHECK(same_bits(rest.data(), whole.data() + first * sequence.q_dim(), rest.size()));
        }
}

TEST_CASE("what is outside the window has no influence even when it is not a number") {
  const AttentionOptions options{20, 3, 0.0F, {}};
  for (const KernelTable* table : tables()) {
    Sequence sequence(*table, {4, 2, 16}, kPositions, 16, KvEncoding::kF32, 1, 2);
    const std::vector<float> expected = sequence.attend(0, kPositions, kAttentionRows, options);
    const std::vector<float> nan(32, std::numeric_limits<float>::quiet_NaN());
    sequence.write(70, nan, nan);
    const std::vector<float> got = sequence.attend(0, kPositions, kAttentionRows, options);
    const std::size_t width = sequence.q_dim();
    CHECK(same_bits(got.data(), expected.data(), 70 * width));
    for (std::size_t p = 70; p < 90; ++p) CHECK(std::isnan(got[p * width]));
    CHECK(same_bits(got.data() + 90 * width, expected.data() + 90 * width,
                    (kPositions - 90) * width));
  }
}
