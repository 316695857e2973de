// Rotation of q and k, and what lands in the pool, against the CPU's functions.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "kernels/cpu/rope.hpp"
#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/kv_pool_of_test.hpp"

namespace sluice::kernels::cuda {
namespace {

using test::random_floats;

std::vector<double> frequencies(std::size_t pairs) {
  std::vector<double> f(pairs);
  for (std::size_t i = 0; i < pairs; ++i)
    f[i] = std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(pairs));
  return f;
}

TEST_CASE("cuda rope angles are the CPU's up to late positions") {
  const std::vector<std::int32_t> positions{0, 1, 7, -1, 4095, 131071, 1000003};
  for (const std::int32_t pairs : {1, 32, 150}) {
    const auto n = static_cast<std::size_t>(pairs);
    const DeviceArray<double> f(frequencies(n));
    const DeviceArray<std::int32_t> device_positions(positions);
    DeviceArray<float> cosines(positions.size() * n);
    DeviceArray<float> sines(positions.size() * n);
    check_launch(rope_angles(device_positions.data(), 7, f.data(), pairs, 1.3, cosines.data(),
                             sines.data(), nullptr));
    std::vector<float> c(n, 0.0F);
    std::vector<float> s(n, 0.0F);
    for (std::size_t row = 0; row < positions.size(); ++row) {
      if (positions[row] < 0) {
        c.assign(n, 0.0F);
        s.assign(n, 0.0F);
      } else {
        kernels::rope_angles(static_cast<std::size_t>(positions[row]), f.data(), n, 1.3, c.data(),
                             s.data());
      }
      for (std::size_t i = 0; i < n; ++i) {
        CHECK(std::abs(cosines.data()[row * n + i] - c[i]) < 2e-7F);
        CHECK(std::abs(sines.data()[row * n + i] - s[i]) < 2e-7F);
      }
    }
  }
}

/// One launch for rows of two sequences and padding, and what the CPU makes of the same.
class Step {
 public:
  Step(const KvShape& shape, RopePairs layout, std::int32_t pairs, std::uint32_t seed)
      : shape_(shape),
        pairs_(static_cast<std::size_t>(pairs)),
        pool(shape, 2, 40, seed),
        random_(seed),
        q(random_floats(kRows * (shape.q_dim() + 3), random_)),
        k(random_floats(kRows * (shape.kv_dim() + 1), random_)),
        v(random_floats(kRows * (shape.kv_dim() + 1), random_)),
        cosines(random_floats(kRows * pairs_, random_)),
        sines(random_floats(kRows * pairs_, random_)),
        device_q(q),
        layout_(layout) {
    const DeviceArray<float> device_k(k);
    const DeviceArray<float> device_v(v);
    const DeviceArray<float> device_cosines(cosines);
    const DeviceArray<float> device_sines(sines);
    const DeviceArray<std::int32_t> device_positions(positions);
    const DeviceArray<std::int32_t> device_sequences(sequences);
    RotateStore operands;
    operands.q = device_q.data();
    operands.k = device_k.data();
    operands.v = device_v.data();
    operands.q_stride = static_cast<std::int32_t>(shape.q_dim() + 3);
    operands.kv_stride = static_cast<std::int32_t>(shape.kv_dim() + 1);
    operands.num_heads = shape.heads;
    operands.layout = layout;
    operands.pairs = pairs;
    operands.cosines = device_cosines.data();
    operands.sines = device_sines.data();
    check_launch(rotate_and_store(operands, pool.layer(),
                                  pool.places(device_positions.data(), device_sequences.data()),
                                  kRows, nullptr));
    CHECK(device_k.read() == k);
  }

  /// The row's vector turned by the CPU.
  std::vector<float> turned(const std::vector<float>& x, std::size_t row,
                            std::int32_t heads) const {
    const auto head_dim = static_cast<std::size_t>(shape_.head_dim);
    const std::size_t n = static_cast<std::size_t>(heads) * head_dim;
    const std::size_t stride = x.size() / kRows;
    std::vector<float> result(x.begin() + static_cast<std::ptrdiff_t>(row * stride),
                              x.begin() + static_cast<std::ptrdiff_t>(row * stride + n));
    const auto layout = layout_ == RopePairs::kNeighbours ? kernels::RopePairs::kNeighbours
                                                          : kernels::RopePairs::kHalves;
    kernels::rope_apply(result.data(), static_cast<std::size_t>(heads), head_dim, pairs_, layout,
                        cosines.data() + row * pairs_, sines.data() + row * pairs_);
    return result;
  }

  static constexpr std::int32_t kRows = 5;
  const std::vector<std::int32_t> positions{3, 4, 39, -1, 0};
  const std::vector<std::int32_t> sequences{0, 0, 1, 0, 1};

 private:
  KvShape shape_;
  std::size_t pairs_;

 public:
  PoolOfTest pool;

 private:
  std::mt19937 random_;

 public:
  std::vector<float> q, k, v, cosines, sines;
  DeviceArray<float> device_q;

 private:
  RopePairs layout_;
};

/// What the CPU stores for one head, read back.
std::vector<float> stored_by_cpu(KvType type, const float* x, std::size_t n) {
  constexpr KvEncoding kEncodings[] = {KvEncoding::kF32, KvEncoding::kF16, KvEncoding::kBF16,
                                       KvEncoding::kQ8_0};
  const KvEncoding encoding = kEncodings[static_cast<std::size_t>(type)];
  std::vector<std::byte> bytes(kernels::kv_row_bytes(encoding, n));
  std::vector<std::byte> keys(bytes.size());
  kernels::KvLayer layer{keys.data(), bytes.data(), encoding, encoding, 1, n, 1};
  kernel_table(Isa::kScalar).write_kv(layer, 0, 0, x, x);
  std::vector<float> values((n + 31) / 32 * 32);
  if (type == KvType::kF32) dequantize_f32(bytes.data(), values.data(), n);
  if (type == KvType::kF16) dequantize_f16(bytes.data(), values.data(), n);
  if (type == KvType::kBF16) dequantize_bf16(bytes.data(), values.data(), n);
  if (type == KvType::kQ8_0) dequantize_q8_0(bytes.data(), values.data(), values.size());
  return values;
}

TEST_CASE("cuda rotate and store leaves what the CPU leaves") {
  std::uint32_t seed = 20;
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0})
    for (const RopePairs layout : {RopePairs::kNeighbours, RopePairs::kHalves})
      for (const auto& [head_dim, pairs] : std::vector<std::pair<std::int32_t, std::int32_t>>{
               {8, 4}, {64, 32}, {128, 64}, {80, 20}, {33, 7}, {256, 0}}) {
        CAPTURE(static_cast<int>(type), static_cast<int>(layout), head_dim, pairs);
        KvShape shape{6, 2, head_dim, 8, type, type};
        Step step(shape, layout, pairs, ++seed);
        for (std::size_t row = 0; row < Step::kRows; ++row) {
          const std::size_t n = shape.q_dim();
          const float* const got = step.device_q.data() + row * (n + 3);
          if (step.positions[row] < 0) {
            REQUIRE(test::same_bits(got, step.q.data() + row * (n + 3), n + 3));
            continue;
          }
          REQUIRE(test::same_bits(got, step.turned(step.q, row, shape.heads).data(), n));
          REQUIRE(test::same_bits(got + n, step.q.data() + row * (n + 3) + n, 3));
          const std::vector<float> k = step.turned(step.k, row, shape.kv_heads);
          const float* const v = step.v.data() + row * (shape.kv_dim() + 1);
          for (std::int32_t head = 0; head < shape.kv_heads; ++head) {
            const auto dim = static_cast<std::size_t>(head_dim);
            const std::size_t first = static_cast<std::size_t>(head) * dim;
            const std::vector<float> keys = stored_by_cpu(type, k.data() + first, dim);
            const std::vector<float> values = stored_by_cpu(type, v + first, dim);
            const auto stored = [&](bool key, std::int32_t i) {
              return step.pool.stored(key, step.sequences[row], step.positions[row], head, i);
            };
            for (std::int32_t i = 0; i < head_dim; ++i) {
              REQUIRE(stored(true, i) == keys[static_cast<std::size_t>(i)]);
              REQUIRE(stored(false, i) == values[static_cast<std::size_t>(i)]);
            }
          }
        }
        // Neighbouring positions are untouched.
        CHECK(step.pool.stored(true, 0, 5, 1, 0) != step.pool.stored(true, 0, 5, 1, 0));
        CHECK(step.pool.stored(false, 1, 1, 0, 0) != step.pool.stored(false, 1, 1, 0, 0));
      }
}

TEST_CASE("cuda store of what is not finite shows") {
  KvShape shape{1, 1, 32, 2, KvType::kQ8_0, KvType::kQ8_0};
  PoolOfTest pool(shape, 1, 2, 1);
  std::vector<float> x(32, 1.0F);
  DeviceArray<float> q(x);
  x[9] = std::numeric_limits<float>::infinity();
  const DeviceArray<float> kv(x);
  const DeviceArray<std::int32_t> zero(std::vector<std::int32_t>{0});
  RotateStore operands;
  operands.q = q.data();
  operands.k = kv.data();
  operands.v = kv.data();
  operands.q_stride = 32;
  operands.kv_stride = 32;
  operands.num_heads = 1;
  check_launch(
      rotate_and_store(operands, pool.layer(), pool.places(zero.data(), zero.data()), 1, nullptr));
  CHECK(std::isnan(pool.stored(true, 0, 0, 0, 3)));
}

TEST_CASE("cuda rotate and store of no rows and bad shapes") {
  KvShape shape{2, 1, 32, 4, KvType::kF16, KvType::kQ8_0};
  PoolOfTest pool(shape, 1, 4, 1);
  DeviceArray<float> x(64);
  const DeviceArray<std::int32_t> zero(std::vector<std::int32_t>{0});
  const RowPlaces places = pool.places(zero.data(), zero.data());
  RotateStore operands;
  operands.q = x.data();
  operands.k = x.data();
  operands.v = x.data();
  operands.q_stride = 64;
  operands.kv_stride = 32;
  operands.num_heads = 2;
  check_launch(rotate_and_store(operands, pool.layer(), places, 0, nullptr));
  operands.pairs = 17;
  check_refused(rotate_and_store(operands, pool.layer(), places, 1, nullptr));
  operands.pairs = 16;  // without cosines
  check_refused(rotate_and_store(operands, pool.layer(), places, 1, nullptr));
  operands.pairs = 0;
  KvLayer odd = pool.layer();
  odd.block_size = 3;
  check_refused(rotate_and_store(operands, odd, places, 1, nullptr));
  odd = pool.layer();
  odd.head_dim = 257;
  check_refused(rotate_and_store(operands, odd, places, 1, nullptr));
}

}  // namespace
}  // namespace sluice::kernels::cuda
