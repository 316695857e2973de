// KV storage types: what is written, what is read back, and who is touched.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/cpu/dequantize.hpp"
#include "tests/kernels/attention_sequence.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

constexpr KvEncoding kEncodings[] = {KvEncoding::kF32, KvEncoding::kF16, KvEncoding::kBF16,
                                     KvEncoding::kQ8_0, KvEncoding::kQ4_0};

/// A pool of `blocks` blocks of 8 positions with one layer.
struct Pool {
  Pool(KvEncoding encoding, std::size_t heads, std::size_t head_dim, std::size_t blocks = 3)
      : k(blocks * 8 * heads * kv_row_bytes(encoding, head_dim), std::byte{0xA5}),
        v(k),
        layer{k.data(), v.data(), encoding, encoding, heads, head_dim, 8} {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  std::vector<std::byte> k, v;
  KvLayer layer;
};

/// What a value becomes in a group: rounded to whole steps of the group's scale, by definition.
std::vector<float> rounded(KvEncoding encoding, std::vector<float> x) {
  if (encoding == KvEncoding::kF32) return x;
  for (std::size_t first = 0; first < x.size(); first += 32) {
    const std::size_t end = std::min(first + 32, x.size());
    float largest = 0;
    for (std::size_t i = first; i < end; ++i)
      if (std::abs(x[i]) > std::abs(largest)) largest = x[i];
    const bool q8 = encoding == KvEncoding::kQ8_0;
    const float exact = q8 ? std::abs(largest) / 127.0F : largest / -8.0F;
    const auto scale = static_cast<float>(static_cast<_Float16>(exact));
    for (std::size_t i = first; i < end; ++i) {
      const float steps = std::nearbyint(x[i] / scale);
      x[i] = scale * std::clamp(steps, q8 ? -127.0F : -8.0F, q8 ? 127.0F : 7.0F);
    }
  }
  return x;
}

/// Every position's row of a matrix [positions x heads * head_dim], head by head.
void round_rows(KvEncoding encoding, std::size_t head_dim, std::vector<float>& matrix) {
  for (std::size_t i = 0; i < matrix.size(); i += head_dim) {
    const auto from = matrix.begin() + static_cast<std::ptrdiff_t>(i);
    const std::vector<float> row =
        rounded(encoding, {from, from + static_cast<std::ptrdiff_t>(head_dim)});
    std::copy(row.begin(), row.end(), from);
  }
}

}  // namespace

TEST_CASE("rows of a KV type take the bytes of its blocks") {
  CHECK(kv_row_bytes(KvEncoding::kF32, 80) == 320);
  CHECK(kv_row_bytes(KvEncoding::kF16, 80) == 160);
  CHECK(kv_row_bytes(KvEncoding::kBF16, 80) == 160);
  CHECK(kv_row_bytes(KvEncoding::kQ8_0, 64) == 68);
  CHECK(kv_row_bytes(KvEncoding::kQ8_0, 80) == 102);
  CHECK(kv_row_bytes(KvEncoding::kQ4_0, 128) == 72);
}

TEST_CASE("attention on quantised KV is attention on the rounded values") {
  for (const KernelTable* table : tables())
    for (const Shape& shape :
         {Shape{8, 4, 8}, Shape{3, 1, 20}, Shape{4, 2, 64}, Shape{2, 2, 33}, Shape{2, 1, 80}})
      for (const KvEncoding encoding : {KvEncoding::kQ8_0, KvEncoding::kQ4_0})
        for (const std::size_t block_size : {16U, 3U}) {
          CAPTURE(isa_name(table->isa), shape.head_dim, static_cast<int>(encoding), block_size);
          Sequence sequence(*table, shape, 90, block_size, encoding, 1, 2);
          const std::vector<float> got = sequence.attend(0, 90, kAttentionRows);
          round_rows(encoding, shape.head_dim, sequence.k);
          round_rows(encoding, shape.head_dim, sequence.v);
          CHECK(worst_difference(got, sequence.expected()) < 3e-6);
        }
}

TEST_CASE("stored values are the blocks of the file types of the same names") {
  for (const KernelTable* table : tables())
    for (const KvEncoding encoding : {KvEncoding::kQ8_0, KvEncoding::kQ4_0, KvEncoding::kBF16}) {
      std::mt19937 random(3);
      const std::size_t dim = 96;
      Pool pool(encoding, 1, dim);
      const std::vector<float> x = random_floats(dim, random);
      table->write_kv(pool.layer, 1, 5, x.data(), x.data());
      std::vector<float> read(dim);
      const std::byte* row = pool.v.data() + (8 + 5) * kv_row_bytes(encoding, dim);
      if (encoding == KvEncoding::kQ8_0) dequantize_q8_0(row, read.data(), dim);
      if (encoding == KvEncoding::kQ4_0) dequantize_q4_0(row, read.data(), dim);
      if (encoding == KvEncoding::kBF16) {
        dequantize_bf16(row, read.data(), dim);
        for (std::size_t i = 0; i < dim; ++i)
          CHECK(std::abs(read[i] - x[i]) <= std::abs(x[i]) / 256.0F);
      } else {
        CHECK(read == rounded(encoding, x));
      }
    }
}

TEST_CASE("every instruction set writes the same bytes") {
  for (const KvEncoding encoding : kEncodings)
    for (const std::size_t dim : {8U, 33U, 128U, 200U}) {
      std::mt19937 random(4);
      std::vector<std::byte> first_k;
      std::vector<std::byte> first_v;
      std::vector<std::vector<float>> rows;
      for (int i = 0; i < 24; ++i) {
        rows.push_back(random_floats(2 * dim, random, std::ldexp(1.0F, i * 4 - 50)));
        if (i % 5 == 0) std::fill(rows.back().begin(), rows.back().end(), 0.0F);
        if (i % 7 == 0) rows.back()[3] = -rows.back()[3] * 1e30F;
      }
      for (const KernelTable* table : tables()) {
        Pool pool(encoding, 2, dim);
        for (std::size_t p = 0; p < 24; ++p)
          table->write_kv(pool.layer, p / 8, p % 8, rows[p].data(), rows[p].data());
        if (first_k.empty()) first_k = pool.k, first_v = pool.v;
        CAPTURE(static_cast<int>(encoding), dim, isa_name(table->isa));
        CHECK(pool.k == first_k);
        CHECK(pool.v == first_v);
      }
    }
}

TEST_CASE("writing a position leaves the bytes of the others alone") {
  for (const KernelTable* table : tables())
    for (const KvEncoding encoding : kEncodings)
      for (const std::size_t dim : {33U, 64U}) {
        std::mt19937 random(5);
        const std::vector<float> x = random_floats(2 * dim, random);
        Pool pool(encoding, 2, dim);
        table->write_kv(pool.layer, 1, 3, x.data(), x.data());
        const auto changed = [](const std::vector<std::byte>& bytes) {
          return std::count_if(bytes.begin(), bytes.end(),
                               [](std::byte b) { return b != std::byte{0xA5}; });
        };
        const auto most = static_cast<std::ptrdiff_t>(2 * kv_row_bytes(encoding, dim));
        CHECK(changed(pool.k) <= most);
        CHECK(changed(pool.v) <= most);
        // Written again in another order among others, the position reads the same.
        Pool other(encoding, 2, dim);
        for (const std::size_t p : {7U, 3U, 0U}) {
          const std::vector<float> y = p == 3 ? x : random_floats(2 * dim, random);
          table->write_kv(other.layer, 1, p, y.data(), y.data());
        }
        for (const std::size_t p : {7U, 0U}) table->write_kv(pool.layer, 1, p, x.data(), x.data());
        std::vector<float> zeros(2 * dim, 0.0F);
        for (const std::size_t p : {7U, 0U}) {
          table->write_kv(pool.layer, 1, p, zeros.data(), zeros.data());
          table->write_kv(other.layer, 1, p, zeros.data(), zeros.data());
        }
        CHECK(pool.k == other.k);
        CHECK(pool.v == other.v);
      }
}

TEST_CASE("what is not a number stays one in its group of a quantised position") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const KernelTable* table : tables())
    for (const KvEncoding encoding : {KvEncoding::kQ8_0, KvEncoding::kQ4_0})
      for (const float bad : {nan, std::numeric_limits<float>::infinity()}) {
        Sequence sequence(*table, {2, 1, 64}, 40, 16, encoding, 1, 2);
        std::vector<float> row(64, 1.0F);
        row[40] = bad;
        sequence.write(35, std::vector<float>(64, 1.0F), row);
        const std::vector<float> out = sequence.attend(0, 40, kAttentionRows);
        CHECK(std::isnan(out[35 * 128 + 40]));
        CHECK_FALSE(std::isnan(out[35 * 128 + 10]));
        CHECK_FALSE(std::isnan(out[34 * 128 + 40]));
      }
}

TEST_CASE("keys shorter than values are scored by what there is of them") {
  // A key of 24 elements scores like one of 64 whose rest is zero.
  for (const KernelTable* table : tables())
    for (const KvEncoding encoding : {KvEncoding::kF32, KvEncoding::kF16}) {
      std::mt19937 random(6);
      Pool full(encoding, 1, 64, 12);
      Pool shorter(encoding, 1, 64, 12);
      shorter.layer.key_dim = 24;
      const std::size_t n = 90;
      std::vector<std::int32_t> blocks;
      for (std::int32_t b = 0; b < 12; ++b) blocks.push_back(11 - b);
      for (std::size_t p = 0; p < n; ++p) {
        std::vector<float> key = random_floats(64, random);
        std::fill(key.begin() + 24, key.end(), 0.0F);
        const std::vector<float> value = random_floats(64, random);
        for (Pool* pool : {&full, &shorter})
          table->write_kv(pool->layer, static_cast<std::size_t>(blocks[p / 8]), p % 8, key.data(),
                          value.data());
      }
      const std::vector<float> q = random_floats(n * 64, random);
      std::vector<float> space(attention_workspace_floats(1, 1, 64));
      const auto run = [&](const KvLayer& layer) {
        std::vector<float> out(n * 64);
        AttentionOperands a;
        a.q = q.data();
        a.out = out.data();
        a.stride = 64;
        a.num_heads = 1;
        a.scale = 0.2F;
        a.blocks = blocks.data();
        for (std::size_t row = 0; row < n; row += 30)
          table->attention(layer, a, 0, row, row + 30, space.data());
        return out;
      };
      CHECK(worst_difference(run(full.layer), run(shorter.layer)) < 1e-6);
    }
}
