// Products with plain numbers, inputs in f32. A unit is 8 neighbouring columns; the last one of a
// row may be shorter.
#pragma once

#include "kernels/cuda/matvec.hpp"

namespace sluice::kernels::cuda {

/// kWide: rows of weights and inputs are multiples of 16 bytes apart, and read as such. The sums
/// are the same.
template <ElementType kType, bool kWide>
struct PlainUnit {
  static constexpr int kUnitCols = 8;
  static constexpr int kOutputsOfManyRows = 2;

  struct Input {
    float values[kUnitCols];

    __device__ Input(const Matvec& operands, int row, int unit) {
      const int first = unit * kUnitCols;
      const float* const x = operands.x + offset_of(row, operands.x_stride) + first;
      if (kWide) {
        for (int i = 0; i < kUnitCols; i += 4) {
          const float4 four = *reinterpret_cast<const float4*>(x + i);
          values[i] = four.x;
          values[i + 1] = four.y;
          values[i + 2] = four.z;
          values[i + 3] = four.w;
        }
      } else {
        for (int i = 0; i < kUnitCols; ++i)
          values[i] = first + i < operands.weights.cols ? x[i] : 0.0F;
      }
    }
  };

  float values[kUnitCols];
  int count;

  static __device__ PlainUnit load(const Weights& w, int output, int unit) {
    const int first = unit * kUnitCols;
    const int left = w.cols - first;
    constexpr int kElement = kType == ElementType::kF32 ? 4 : 2;
    const auto* const row = static_cast<const unsigned char*>(w.data) +
                            offset_of(output, std::int64_t{w.cols} * kElement);
    PlainUnit loaded;
    loaded.count = left < kUnitCols ? left : kUnitCols;
    if (kWide) {
      constexpr int kBytes = kUnitCols * kElement;
      constexpr int kPieces = kBytes / 16;
      uint4 pieces[kPieces];
      for (int i = 0; i < kPieces; ++i)
        pieces[i] = reinterpret_cast<const uint4*>(row + std::int64_t{unit} * kBytes)[i];
      for (int i = 0; i < kPieces; ++i) loaded.unpack(pieces[i], i);
    } else {
      for (int i = 0; i < kUnitCols; ++i)
        loaded.values[i] = first + i < w.cols ? load_element(row, kType, first + i) : 0.0F;
    }
    return loaded;
  }

  __device__ void dot(const Input& x, float& total) const {
    for (int i = 0; i < kUnitCols; ++i)
      if (kWide || i < count) total = multiply_add(values[i], x.values[i], total);
  }

 private:
  __device__ void unpack(const uint4& piece, int index) {
    const unsigned words[4] = {piece.x, piece.y, piece.z, piece.w};
    for (int i = 0; i < 4; ++i) {
      if (kType == ElementType::kF32) {
        values[4 * index + i] = __uint_as_float(words[i]);
      } else {
        values[2 * i] = from_bits(static_cast<std::uint16_t>(words[i] & 0xFFFFU));
        values[2 * i + 1] = from_bits(static_cast<std::uint16_t>(words[i] >> 16));
      }
    }
  }
  static __device__ float from_bits(std::uint16_t bits) {
    return kType == ElementType::kF16 ? half_to_float(bits) : bfloat16_to_float(bits);
  }
};

template <ElementType kType>
LaunchStatus launch_plain(const char* name, const Matvec& operands, std::int32_t rows,
                          Stream stream) {
  if (operands.weights.cols % 8 == 0 && operands.x_stride % 4 == 0)
    return launch_matvec<PlainUnit<kType, true>>(name, operands, rows, stream);
  return launch_matvec<PlainUnit<kType, false>>(name, operands, rows, stream);
}

}  // namespace sluice::kernels::cuda
