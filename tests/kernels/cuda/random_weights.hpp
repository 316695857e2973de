// Random weights of every type for the CUDA kernels, with what they stand for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/dequantize.hpp"
#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/device_array.hpp"

namespace sluice::kernels::cuda {

struct WeightTypeOfTest {
  WeightType type;
  std::string name;
  std::vector<std::size_t> halves;  ///< where f16 numbers stand in a block
  void (*dequantize)(const std::byte*, float*, std::size_t);
};

inline const std::vector<WeightTypeOfTest>& weight_types() {
  static const std::vector<WeightTypeOfTest> types = {
      {WeightType::kF32, "f32", {}, dequantize_f32},
      {WeightType::kF16, "f16", {0}, dequantize_f16},
      {WeightType::kBF16, "bf16", {}, dequantize_bf16},
      {WeightType::kQ8_0, "q8_0", {0}, dequantize_q8_0},
      {WeightType::kQ4_0, "q4_0", {0}, dequantize_q4_0},
      {WeightType::kQ4_K, "q4_k", {0, 2}, dequantize_q4_k},
      {WeightType::kQ6_K, "q6_k", {208}, dequantize_q6_k},
  };
  return types;
}

struct RandomWeights {
  DeviceArray<std::byte> file;
  std::vector<float> decoded;  ///< [rows x cols], by the plain functions
  Weights view;
};

inline RandomWeights random_weights(const WeightTypeOfTest& type, std::int32_t rows,
                                    std::int32_t cols, std::mt19937& random) {
  const std::size_t bytes = static_cast<std::size_t>(rows) * weight_row_bytes(type.type, cols);
  std::vector<std::byte> file(bytes);
  const std::size_t block = weight_block_bytes(type.type);
  for (std::byte& b : file) b = static_cast<std::byte>(random());
  for (std::size_t at = 0; at < bytes; at += block) {
    for (const std::size_t half : type.halves) {  // of modest size, either sign
      const auto bits = static_cast<std::uint16_t>(0x2000U + (random() & 0x83FFU));
      std::memcpy(file.data() + at + half, &bits, sizeof(bits));
    }
    if (type.type == WeightType::kF32) {
      const float x = std::normal_distribution<float>()(random);
      std::memcpy(file.data() + at, &x, sizeof(x));
    } else if (type.type == WeightType::kBF16) {
      const auto bits = static_cast<std::uint16_t>(0x3E00U + (random() & 0x81FFU));
      std::memcpy(file.data() + at, &bits, sizeof(bits));
    }
  }
  RandomWeights w{DeviceArray<std::byte>(file), std::vector<float>(elements(rows, cols)), {}};
  type.dequantize(file.data(), w.decoded.data(), w.decoded.size());
  w.view = {w.file.data(), type.type, rows, cols};
  return w;
}

/// The same weights, brought into the order of arrange_weights() where there is one.
inline void arrange(RandomWeights& w) {
  const Weights& view = w.view;
  if (!can_arrange(view.type, view.rows, view.cols)) return;
  check_launch(arrange_weights(w.file.data(), view.type, view.rows, view.cols, nullptr));
  w.view.arranged = true;
}

}  // namespace sluice::kernels::cuda
