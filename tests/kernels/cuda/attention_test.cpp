// Attention over paged KV: against its definition, and bit for bit the same however it is computed.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/kv_pool_of_test.hpp"

namespace sluice::kernels::cuda {
namespace {

using test::random_floats;
using test::same_bits;

struct Options {
  std::int32_t window = 0;
  std::int32_t keep_first = 0;
  float softcap = 0.0F;
  bool sinks = false;
};

/// One sequence of `length` positions, stored on scattered blocks.
class SequenceOfTest {
 public:
  SequenceOfTest(const KvShape& shape, std::int32_t length, std::uint32_t seed,
                 std::uint32_t block_seed)
      : shape_(shape), length_(length), pool_(shape, 2, length + 40, block_seed), random_(seed) {
    const auto rows = static_cast<std::size_t>(length);
    q_ = random_floats(rows * shape.q_dim(), random_);
    sinks_ = random_floats(static_cast<std::size_t>(shape.heads), random_);
    DeviceArray<float> q(q_);
    const DeviceArray<float> k(random_floats(rows * shape.kv_dim(), random_));
    const DeviceArray<float> v(random_floats(rows * shape.kv_dim(), random_));
    std::vector<std::int32_t> positions(rows);
    std::iota(positions.begin(), positions.end(), 0);
    const DeviceArray<std::int32_t> device_positions(positions);
    const DeviceArray<std::int32_t> sequences(std::vector<std::int32_t>(rows, 1));
    RotateStore store;
    store.q = q.data();
    store.k = k.data();
    store.v = v.data();
    store.q_stride = static_cast<std::int32_t>(shape.q_dim());
    store.kv_stride = static_cast<std::int32_t>(shape.kv_dim());
    store.num_heads = shape.heads;
    check_launch(rotate_and_store(store, pool_.layer(),
                                  pool_.places(device_positions.data(), sequences.data()), length,
                                  nullptr));
  }

  /// Outputs of some positions, each as a row of its own, with a row of padding between.
  std::vector<float> decode(const std::vector<std::int32_t>& positions, const Options& options,
                            std::int32_t max_context) {
    const std::size_t rows = positions.size() + 1;
    std::vector<std::int32_t> with_padding = positions;
    with_padding.insert(with_padding.begin() + 1, -1);
    Call call(*this, with_padding, options);
    DeviceArray<float> workspace(attention_workspace_floats(
        static_cast<std::int32_t>(rows), shape_.heads, shape_.head_dim, max_context));
    check_launch(attention_decode(call.operands, pool_.layer(), call.places(),
                                  static_cast<std::int32_t>(rows), max_context, workspace.data(),
                                  nullptr));
    std::vector<float> out = call.out.read();
    for (std::size_t i = 0; i < shape_.q_dim(); ++i) REQUIRE(out[shape_.q_dim() + i] == 0.0F);
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(shape_.q_dim()),
              out.begin() + static_cast<std::ptrdiff_t>(2 * shape_.q_dim()));
    return out;
  }

  /// Outputs of positions [first, end), in tiles of at most `rows` rows.
  std::vector<float> prefill(std::int32_t first, std::int32_t end, std::int32_t rows,
                             const Options& options) {
    std::vector<std::int32_t> positions(static_cast<std::size_t>(end - first));
    std::iota(positions.begin(), positions.end(), first);
    Call call(*this, positions, options);
    std::vector<PrefillTile> tiles{{0, 0}};  // padding
    const std::int32_t most = std::min(rows, prefill_tile_rows(shape_.heads, shape_.kv_heads));
    for (std::int32_t row = 0; row < end - first; row += most)
      tiles.push_back({row, std::min(most, end - first - row)});
    const DeviceArray<PrefillTile> device_tiles(tiles);
    check_launch(attention_prefill(call.operands, pool_.layer(), call.places(), device_tiles.data(),
                                   static_cast<std::int32_t>(tiles.size()), nullptr));
    return call.out.read();
  }

  /// The definition, in double, over what is stored.
  std::vector<double> expected(std::int32_t position, const Options& options);

  /// Gives blocks back that the row at `position` does not see.
  void forget_unseen(std::int32_t position, const Options& options) {
    for (std::int32_t b = 0; b < pool_.table_stride(); ++b) {
      bool seen = false;
      for (std::int32_t p = b * shape_.block_size; p < (b + 1) * shape_.block_size; ++p)
        seen = seen || (p <= position && sees(position, p, options));
      if (!seen) pool_.table(1)[b] = -1;
    }
  }

  static bool sees(std::int32_t position, std::int32_t other, const Options& o) {
    return o.window == 0 || other > position - o.window || other < o.keep_first;
  }

 private:
  /// Rows on the device for one launch.
  struct Call {
    Call(SequenceOfTest& s, const std::vector<std::int32_t>& row_positions, const Options& options)
        : sequence(s),
          positions(row_positions),
          sequences(std::vector<std::int32_t>(row_positions.size(), 1)),
          q(row_positions.size() * s.shape_.q_dim()),
          out(row_positions.size() * s.shape_.q_dim()),
          sinks(s.sinks_) {
      for (std::size_t row = 0; row < row_positions.size(); ++row)
        if (row_positions[row] >= 0)
          std::copy_n(s.q_.data() + static_cast<std::size_t>(row_positions[row]) * s.shape_.q_dim(),
                      s.shape_.q_dim(), q.data() + row * s.shape_.q_dim());
      const auto dim = static_cast<std::int32_t>(s.shape_.q_dim());
      operands.q = q.data();
      operands.q_stride = dim;
      operands.out = {out.data(), ElementType::kF32, dim};
      operands.num_heads = s.shape_.heads;
      operands.scale = 1.0F / std::sqrt(static_cast<float>(s.shape_.head_dim));
      operands.window = options.window;
      operands.keep_first = options.keep_first;
      operands.softcap = options.softcap;
      operands.sinks = options.sinks ? sinks.data() : nullptr;
    }
    RowPlaces places() { return sequence.pool_.places(positions.data(), sequences.data()); }

    SequenceOfTest& sequence;
    DeviceArray<std::int32_t> positions, sequences;
    DeviceArray<float> q, out, sinks;
    Attention operands;
  };

  KvShape shape_;
  std::int32_t length_;
  PoolOfTest pool_;
  std::mt19937 random_;
  std::vector<float> q_, sinks_;
};

std::vector<double> SequenceOfTest::expected(std::int32_t position, const Options& options) {
  std::vector<double> out(shape_.q_dim());
  for (std::int32_t head = 0; head < shape_.heads; ++head) {
    const std::int32_t kv_head = head / (shape_.heads / shape_.kv_heads);
    double total =
        options.sinks ? std::exp(static_cast<double>(sinks_[static_cast<std::size_t>(head)])) : 0.0;
    const std::size_t first = elements(head, shape_.head_dim);
    for (std::int32_t p = 0; p <= position; ++p) {
      if (!sees(position, p, options)) continue;
      double score = 0.0;
      for (std::int32_t i = 0; i < shape_.head_dim; ++i)
        score += static_cast<double>(q_[static_cast<std::size_t>(position) * shape_.q_dim() +
                                        first + static_cast<std::size_t>(i)]) *
                 static_cast<double>(pool_.stored(true, 1, p, kv_head, i));
      score /= std::sqrt(static_cast<double>(shape_.head_dim));
      const double cap = static_cast<double>(options.softcap);
      const double weight = std::exp(cap == 0.0 ? score : cap * std::tanh(score / cap));
      total += weight;
      for (std::int32_t i = 0; i < shape_.head_dim; ++i)
        out[first + static_cast<std::size_t>(i)] +=
            weight * static_cast<double>(pool_.stored(false, 1, p, kv_head, i));
    }
    for (std::int32_t i = 0; i < shape_.head_dim; ++i)
      out[first + static_cast<std::size_t>(i)] /= total;
  }
  return out;
}

const std::vector<KvShape>& shapes() {
  static const std::vector<KvShape> all = {
      {8, 4, 8, 16, KvType::kF16, KvType::kF16},     {4, 1, 64, 16, KvType::kBF16, KvType::kF16},
      {3, 3, 33, 5, KvType::kF32, KvType::kF32},     {14, 2, 64, 16, KvType::kQ8_0, KvType::kQ8_0},
      {10, 1, 128, 32, KvType::kF16, KvType::kQ8_0}, {2, 1, 256, 8, KvType::kF16, KvType::kBF16},
      {20, 1, 96, 16, KvType::kQ8_0, KvType::kF32},
  };
  return all;
}

const std::vector<Options>& all_options() {
  static const std::vector<Options> all = {
      {}, {40, 0, 0.0F, false}, {40, 4, 20.0F, true}, {0, 0, 0.0F, true}, {300, 1, 0.0F, false}};
  return all;
}

TEST_CASE("cuda attention is the softmax of its definition") {
  constexpr std::int32_t kLength = 300;  // more than one part
  std::uint32_t seed = 40;
  for (const KvShape& shape : shapes()) {
    SequenceOfTest sequence(shape, kLength, ++seed, 3);
    for (const Options& options : all_options()) {
      CAPTURE(shape.heads, shape.kv_heads, shape.head_dim, options.window, options.softcap);
      const std::vector<std::int32_t> positions{0, 31, 32, 255, 256, 299};
      const std::vector<float> out = sequence.decode(positions, options, 512);
      for (std::size_t row = 0; row < positions.size(); ++row) {
        const std::vector<double> expected = sequence.expected(positions[row], options);
        const std::vector<float> got(
            out.begin() + static_cast<std::ptrdiff_t>(row * shape.q_dim()),
            out.begin() + static_cast<std::ptrdiff_t>((row + 1) * shape.q_dim()));
        REQUIRE(test::worst_difference(got, expected) < 2e-5);
      }
    }
  }
}

TEST_CASE("cuda attention of prompts gives the bits of decoding however rows are tiled") {
  constexpr std::int32_t kLength = 290;
  std::uint32_t seed = 60;
  for (const KvShape& shape : shapes()) {
    SequenceOfTest sequence(shape, kLength, ++seed, 3);
    for (const Options& options : all_options()) {
      CAPTURE(shape.heads, shape.kv_heads, shape.head_dim, options.window, options.keep_first);
      const std::size_t dim = shape.q_dim();
      const std::vector<float> whole = sequence.prefill(250, kLength, 16, options);
      std::vector<std::int32_t> positions{250, 257, 270, 289};
      const std::vector<float> rows = sequence.decode(positions, options, 300);
      for (std::size_t i = 0; i < positions.size(); ++i)
        REQUIRE(same_bits(rows.data() + i * dim,
                          whole.data() + static_cast<std::size_t>(positions[i] - 250) * dim, dim));
      const std::vector<float> later = sequence.prefill(261, 283, 3, options);
      REQUIRE(same_bits(later.data(), whole.data() + 11 * dim, later.size()));
    }
  }
}

TEST_CASE("cuda attention of random shapes and options") {
  std::mt19937 random(200);
  const auto up_to = [&](std::int32_t most) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(most)) + 1;
  };
  const auto type = [&] { return static_cast<KvType>(random() % 4); };
  for (int round = 0; round < 25; ++round) {
    const std::int32_t kv_heads = up_to(3);
    const KvShape shape{kv_heads * up_to(9), kv_heads, up_to(160), 2 * up_to(20), type(), type()};
    const std::int32_t length = up_to(330);
    Options options;
    if (random() % 2 == 0) options = {up_to(length), up_to(6) - 1, 0.0F, false};
    if (random() % 3 == 0) options.softcap = 15.0F;
    options.sinks = random() % 3 == 0;
    CAPTURE(round, shape.heads, shape.kv_heads, shape.head_dim, shape.block_size, length);
    CAPTURE(options.window, options.keep_first, options.softcap, options.sinks);
    const auto seed = static_cast<std::uint32_t>(random());
    SequenceOfTest sequence(shape, length, seed, seed + 1);
    const std::int32_t position = up_to(length) - 1;
    const std::vector<float> row = sequence.decode({position}, options, length);
    REQUIRE(test::worst_difference(row, sequence.expected(position, options)) < 3e-5);
    const std::int32_t first = up_to(position + 1) - 1;
    const std::vector<float> rows =
        sequence.prefill(std::max(first, position - 40), position + 1, up_to(16), options);
    REQUIRE(same_bits(row.data(), rows.data() + rows.size() - row.size(), row.size()));
  }
}

TEST_CASE("cuda attention does not see company or block numbers or room") {
  const KvShape shape = shapes()[0];
  SequenceOfTest here(shape, 270, 80, 3);
  SequenceOfTest there(shape, 270, 80, 99);
  const std::vector<std::int32_t> some{5, 269, 100};
  const std::vector<float> first = here.decode(some, {}, 270);
  CHECK(first == there.decode(some, {}, 4096));
  const std::vector<float> alone = here.decode({269}, {}, 300);
  CHECK(same_bits(alone.data(), first.data() + shape.q_dim(), shape.q_dim()));
  std::vector<float> result;
  same_in_every_order([&] { result = here.decode(some, {}, 270); }, [&] { return result; });
  same_in_every_order([&] { result = here.prefill(240, 270, 16, {}); }, [&] { return result; });
}

TEST_CASE("cuda attention reads no block behind the window") {
  for (const Options& options : {Options{40, 0, 0.0F, false}, Options{20, 3, 0.0F, false}}) {
    const KvShape shape = shapes()[3];
    SequenceOfTest sequence(shape, 280, 90, 3);
    const std::vector<float> before = sequence.decode({279}, options, 300);
    sequence.forget_unseen(279, options);
    CHECK(before == sequence.decode({279}, options, 300));
    CHECK(before == sequence.prefill(279, 280, 1, options));
  }
}

TEST_CASE("cuda attention of a position beyond the bucket is padding") {
  SequenceOfTest sequence(shapes()[0], 270, 95, 3);
  const std::vector<float> out = sequence.decode({10, 269}, {}, 256);
  CHECK(out[0] != 0.0F);
  CHECK(out[shapes()[0].q_dim()] == 0.0F);
}

TEST_CASE("cuda attention of no rows and bad shapes") {
  const KvShape shape = shapes()[0];
  PoolOfTest pool(shape, 1, 16, 1);
  DeviceArray<float> x(shape.q_dim());
  const DeviceArray<std::int32_t> zero(std::vector<std::int32_t>{0});
  const RowPlaces places = pool.places(zero.data(), zero.data());
  Attention operands;
  operands.q = x.data();
  operands.q_stride = static_cast<std::int32_t>(shape.q_dim());
  operands.out = {x.data(), ElementType::kF32, operands.q_stride};
  operands.num_heads = shape.heads;
  check_launch(attention_decode(operands, pool.layer(), places, 0, 16, x.data(), nullptr));
  check_launch(attention_prefill(operands, pool.layer(), places, nullptr, 0, nullptr));
  check_refused(attention_prefill(operands, pool.layer(), places, nullptr, 1, nullptr));
  check_refused(attention_decode(operands, pool.layer(), places, 1, 0, x.data(), nullptr));
  operands.num_heads = 7;  // no multiple of 4
  check_refused(attention_decode(operands, pool.layer(), places, 1, 16, x.data(), nullptr));
}

}  // namespace
}  // namespace sluice::kernels::cuda
