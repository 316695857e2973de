// A paged KV pool of one layer with some sequences in it, on scattered blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cpu/dequantize.hpp"
#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/kernel_test_support.hpp"

namespace sluice::kernels::cuda {

/// Heads, and how K and V are stored.
struct KvShape {
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t block_size = 16;
  KvType k_type = KvType::kF32;
  KvType v_type = KvType::kF32;

  std::size_t q_dim() const { return elements(heads, head_dim); }
  std::size_t kv_dim() const { return elements(kv_heads, head_dim); }
};

class PoolOfTest {
 public:
  /// Room for `sequences` sequences of up to `positions` positions. Every byte starts as 0xFF: what
  /// is not written is not a number.
  PoolOfTest(const KvShape& shape, std::int32_t sequences, std::int32_t positions,
             std::uint32_t block_seed)
      : shape_(shape),
        stride_((positions + shape.block_size - 1) / shape.block_size),
        k_(bytes(shape.k_type, sequences)),
        v_(bytes(shape.v_type, sequences)),
        tables_(elements(sequences, stride_)) {
    std::fill_n(k_.data(), k_.size(), static_cast<unsigned char>(0xFF));
    std::fill_n(v_.data(), v_.size(), static_cast<unsigned char>(0xFF));
    std::iota(tables_.data(), tables_.data() + tables_.size(), 0);
    std::shuffle(tables_.data(), tables_.data() + tables_.size(), std::mt19937(block_seed));
  }

  KvLayer layer() {
    return {k_.data(),       v_.data(),       shape_.k_type,    shape_.v_type,
            shape_.kv_heads, shape_.head_dim, shape_.block_size};
  }
  const KvShape& shape() const { return shape_; }
  std::int32_t* table(std::int32_t sequence) {
    return tables_.data() + elements(sequence, stride_);
  }
  std::int32_t table_stride() const { return stride_; }
  unsigned char* keys() { return k_.data(); }
  unsigned char* values() { return v_.data(); }

  RowPlaces places(const std::int32_t* positions, const std::int32_t* sequences) {
    return {positions, sequences, tables_.data(), stride_};
  }

  /// Element `i` as it was stored.
  float stored(bool key, std::int32_t sequence, std::int32_t position, std::int32_t head,
               std::int32_t i);

 private:
  std::size_t bytes(KvType type, std::int32_t sequences) const {
    return elements(sequences * stride_, shape_.block_size * shape_.kv_heads) *
           kv_row_bytes(type, shape_.head_dim);
  }

  KvShape shape_;
  std::int32_t stride_;
  DeviceArray<unsigned char> k_, v_;
  DeviceArray<std::int32_t> tables_;
};

inline float PoolOfTest::stored(bool key, std::int32_t sequence, std::int32_t position,
                                std::int32_t head, std::int32_t i) {
  const KvType type = key ? shape_.k_type : shape_.v_type;
  const std::int32_t block = table(sequence)[position / shape_.block_size];
  const std::int32_t offset = position % shape_.block_size;
  const std::size_t head_block = elements(block * shape_.kv_heads + head, shape_.block_size) *
                                 kv_row_bytes(type, shape_.head_dim);
  const unsigned char* const at = (key ? k_ : v_).data() + head_block;
  const auto read = [&](auto value, std::size_t place) {
    std::memcpy(&value, at + place, sizeof(value));
    return value;
  };
  const std::size_t plain = elements(offset, shape_.head_dim) + static_cast<std::size_t>(i);
  switch (type) {
    case KvType::kF32:
      return read(0.0F, plain * 4);
    case KvType::kF16:
      return kernels::half_to_float(read(std::uint16_t{0}, plain * 2));
    case KvType::kBF16:
      return kernels::bfloat16_to_float(read(std::uint16_t{0}, plain * 2));
    case KvType::kQ8_0:
      break;
  }
  const std::int32_t groups = (shape_.head_dim + 31) / 32;
  const std::size_t code_place = elements(offset, groups * 32) + static_cast<std::size_t>(i);
  const std::size_t scale_place = elements(shape_.block_size, groups * 32) +
                                  2 * (elements(offset, groups) + static_cast<std::size_t>(i / 32));
  const auto code = read(std::int8_t{0}, code_place);
  const auto scale = read(std::uint16_t{0}, scale_place);
  return kernels::half_to_float(scale) * static_cast<float>(code);
}

}  // namespace sluice::kernels::cuda
