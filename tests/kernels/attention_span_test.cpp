// Attention over more than one span of positions, by one thread or in parts.
#include <catch2/catch.hpp>
#include <random>

#include "tests/kernels/attention_sequence.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

constexpr std::size_t kPositions = 3 * kAttentionSpan + 10;
const Shape kShapes[] = {{3, 1, 20}, {2, 2, 16}};

std::vector<AttentionOptions> options_for(const Shape& shape) {
  std::vector<float> sinks;
  for (std::size_t h = 0; h < shape.heads; ++h) sinks.push_back(static_cast<float>(h) - 2.0F);
  std::vector<AttentionOptions> all{{},
                                    {70},
                                    {1500},
                                    {70, 5},
                                    {100, kAttentionSpan + 9},
                                    {0, 0, 1.5F},
                                    {0, 0, 0.0F, sinks},
                                    {90, 0, 0.0F, sinks},
                                    {64, 0, 0.0F, {}, 8},
                                    {kAttentionSpan + 200, 0, 0.0F, sinks, 3}};
  all.emplace_back().first_seen = kAttentionSpan + 2;
  all.emplace_back().seen_end = 2 * kAttentionSpan + 1;
  AttentionOptions& biased = all.emplace_back();
  biased.bias_reach = 90;
  std::mt19937 random(4);
  biased.bias = random_floats(shape.heads * (2 * biased.bias_reach + 1), random);
  return all;
}

/// Positions [begin, end).
struct Rows {
  std::size_t begin, end;
};

/// Before and behind the borders of spans.
const Rows kRuns[] = {{kAttentionSpan - 5, kAttentionSpan + 30},
                      {kAttentionSpan + 80, kAttentionSpan + 112},
                      {2 * kAttentionSpan - 3, 2 * kAttentionSpan + 4},
                      {3 * kAttentionSpan - 1, kPositions}};

bool seen_at_all(const AttentionOptions& options, std::size_t position) {
  return options.seen_end != 0 || options.first_seen <= position;
}

}  // namespace

TEST_CASE("attention over several spans agrees with its definition in double precision") {
  for (const KernelTable* table : tables())
    for (const Shape& shape : kShapes) {
      const Sequence sequence(*table, shape, kPositions, 16, KvEncoding::kF32, 1, 2);
      for (const AttentionOptions& options : options_for(shape))
        for (const Rows& run : kRuns) {
          CAPTURE(isa_name(table->isa), shape.head_dim, options.window, options.keep_first,
                  options.every, options.sinks.size(), run.begin);
          const std::vector<float> got =
              sequence.attend(run.begin, run.end, kAttentionRows, options);
          for (std::size_t p = run.begin; p < run.end; p += 4) {
            if (!seen_at_all(options, p)) continue;
            const auto from =
                got.begin() + static_cast<std::ptrdiff_t>((p - run.begin) * sequence.q_dim());
            const std::vector<float> row(from,
                                         from + static_cast<std::ptrdiff_t>(sequence.q_dim()));
            CHECK(worst_difference(row, sequence.expected_row(p, options)) < 3e-6);
          }
        }
    }
}

TEST_CASE("rows over several spans have the same bits alone and together and in parts") {
  for (const KernelTable* table : tables())
    for (const Shape& shape : {Shape{3, 1, 20}, Shape{2, 1, 32}})
      for (const KvEncoding encoding : {KvEncoding::kF16, KvEncoding::kBF16, KvEncoding::kQ8_0}) {
        const Sequence sequence(*table, shape, kPositions, 16, encoding, 1, 2);
        const Sequence other(*table, shape, kPositions, 5, encoding, 1, 3);
        const std::size_t width = sequence.q_dim();
        for (const AttentionOptions& options : options_for(shape))
          for (const Rows& run : kRuns) {
            CAPTURE(isa_name(table->isa), shape.head_dim, options.window, options.keep_first,
                    options.every, options.sinks.size(), run.begin);
            const std::vector<float> whole =
                sequence.attend(run.begin, run.end, kAttentionRows, options);
            for (const std::size_t rows : {1U, 7U}) {
              const std::vector<float> again = sequence.attend(run.begin, run.end, rows, options);
              CHECK(same_bits(again.data(), whole.data(), whole.size()));
            }
            const std::vector<float> moved = other.attend(run.begin, run.end, 3, options);
            CHECK(same_bits(moved.data(), whole.data(), whole.size()));
            for (std::size_t p = run.begin; p < run.end; p += 6)
              for (const std::size_t most : {2U, 9U}) {
                const std::vector<float> row = sequence.attend_in_parts(p, most, options);
                CHECK(same_bits(row.data(), whole.data() + (p - run.begin) * width, width));
              }
          }
      }
}
