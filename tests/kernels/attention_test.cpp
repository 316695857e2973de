#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/kernels/attention_sequence.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

const Shape kShapes[] = {{8, 4, 8}, {3, 1, 20}, {14, 2, 64}, {2, 2, 33}, {20, 2, 16}};

}  // namespace

TEST_CASE("attention agrees with its definition in double precision") {
  for (const KernelTable* table : tables())
    for (const Shape& shape : kShapes)
      for (const std::size_t positions : {1U, 16U, 63U, 64U, 65U, 150U}) {
        CAPTURE(isa_name(table->isa), shape.heads, shape.kv_heads, shape.head_dim, positions);
        const Sequence f32(*table, shape, positions, 16, KvEncoding::kF32, 1, 2);
        CHECK(worst_difference(f32.attend(0, positions, kAttentionRows), f32.expected()) < 2e-6);
        const Sequence f16(*table, shape, positions, 16, KvEncoding::kF16, 1, 2);
        CHECK(worst_difference(f16.attend(0, positions, kAttentionRows), f16.expected()) < 5e-3);
      }
}

TEST_CASE("attention rows do not depend on other rows or block numbers or block size") {
  for (const KernelTable* table : tables())
    for (const Shape& shape : kShapes)
      for (const KvEncoding encoding : {KvEncoding::kF32, KvEncoding::kF16, KvEncoding::kBF16,
                                        KvEncoding::kQ8_0, KvEncoding::kQ4_0}) {
        const std::size_t n = 150;
        CAPTURE(isa_name(table->isa), shape.heads, shape.kv_heads, shape.head_dim);
        const Sequence first(*table, shape, n, 16, encoding, 1, 2);
        const std::vector<float> expected = first.attend(0, n, kAttentionRows);
        for (const std::size_t rows : {1U, 2U, 3U, 7U, 32U})
          CHECK(first.attend(0, n, rows) == expected);
        for (const std::size_t block_size : {1U, 5U, 8U, 16U, 48U, 64U}) {
          const Sequence other(*table, shape, n, block_size, encoding, 1,
                               static_cast<std::uint32_t>(block_size));
          CHECK(other.attend(0, n, kAttentionRows) == expected);
        }
        // A chunk that starts later, and a single decoded position.
        const std::vector<float> chunk = first.attend(70, 131, 9);
        CHECK(same_bits(chunk.data(), expected.data() + 70 * first.q_dim(), chunk.size()));
        const std::vector<float> one = first.attend(149, 150, 1);
        CHECK(same_bits(one.data(), expected.data() + 149 * first.q_dim(), one.size()));
      }
}

TEST_CASE("a position does not see what comes after it even when that is not a number") {
  for (const KernelTable* table : tables()) {
    Sequence sequence(*table, {4, 2, 16}, 40, 16, KvEncoding::kF32, 1, 2);
    const std::vector<float> expected = sequence.attend(0, 40, kAttentionRows);
    const std::vector<float> nan(32, std::numeric_limits<float>::quiet_NaN());
    sequence.write(35, nan, nan);
    const std::vector<float> got = sequence.attend(0, 40, kAttentionRows);
    CHECK(same_bits(got.data(), expected.data(), 35 * sequence.q_dim()));
    CHECK(std::isnan(got[35 * sequence.q_dim()]));
    CHECK(std::isnan(got.back()));
  }
}

TEST_CASE("huge scores neither overflow nor lose the winner") {
  for (const KernelTable* table : tables()) {
    const std::size_t n = 70;
    KvLayer layer;
    std::vector<std::byte> k(5 * 16 * 16 * 4);
    std::vector<std::byte> v(k.size());
    layer = {k.data(), v.data(), KvEncoding::kF32, KvEncoding::kF32, 1, 16, 16};
    const std::vector<std::int32_t> blocks{4, 0, 3, 1, 2};
    std::vector<float> q(n * 16, 100.0F);
    for (std::size_t p = 0; p < n; ++p) {
      const std::vector<float> key(16, p == 3 ? 100.0F : -100.0F);
      const std::vector<float> value(16, static_cast<float>(p));
      table->write_kv(layer, static_cast<std::size_t>(blocks[p / 16]), p % 16, key.data(),
                      value.data());
    }
    std::vector<float> out(n * 16);
    std::vector<float> space(attention_workspace_floats(1, 1, 16));
    AttentionOperands a{q.data(), out.data(), 16, 1, 0.25F, 0, blocks.data()};
    for (std::size_t row = 0; row < n; row += 32)
      table->attention(layer, a, 0, row, std::min<std::size_t>(row + 32, n), space.data());
    CHECK(out[2 * 16] == Approx(1.0F));  // mean of 0, 1, 2
    CHECK(out[3 * 16] == 3.0F);          // the winner alone
    CHECK(out[69 * 16 + 15] == 3.0F);    // still, in the next tile
  }
}

TEST_CASE("every instruction set rounds KV to the same half precision numbers") {
  std::mt19937 random(9);
  std::vector<float> values(1 << 16);
  for (float& x : values) {
    const auto bits = static_cast<std::uint32_t>(random());
    std::memcpy(&x, &bits, 4);
    if (std::isnan(x)) x = 0.0F;
    if (random() % 2 == 0)
      x = std::ldexp(std::normal_distribution<float>()(random),
                     static_cast<int>(random() % 40) - 30);
  }
  std::vector<float> edges{65504.0F,       65519.9F,
                           65520.0F,       -65520.0F,
                           1e30F,          6.0e-8F,
                           2.9e-8F,        2.98023224e-8F,
                           5.96e-8F,       6.1035e-5F,
                           6.0976e-5F,     0.0F,
                           -0.0F,          std::numeric_limits<float>::infinity(),
                           1.00048828125F, 1.00146484375F};
  std::copy(edges.begin(), edges.end(), values.begin());
  std::vector<std::byte> first;
  for (const KernelTable* table : tables()) {
    std::vector<std::byte> k(values.size() * 2);
    std::vector<std::byte> v(values.size() * 2);
    const KvLayer layer{k.data(), v.data(), KvEncoding::kF16, KvEncoding::kF16, 1, 64, 1};
    for (std::size_t i = 0; i < values.size(); i += 64)
      table->write_kv(layer, i / 64, 0, values.data() + i, values.data() + i);
    CHECK(k == v);  // block size 1: the layouts are the same
    if (first.empty()) first = k;
    CHECK(k == first);
  }
}
