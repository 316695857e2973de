// What every CUDA launch function takes and returns, for code that knows no CUDA.
//
// The same functions are compiled by nvcc, where pointers are device pointers, and by the host
// shim of the tests, where they are pointers of the shim's memory. Nothing here differs.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;  // what the CUDA runtime calls a stream

namespace sluice::kernels::cuda {

/// The same type as cudaStream_t. Null is the default stream; the shim ignores it.
using Stream = CUstream_st*;

/// How a launch went. Execution is asynchronous: an error inside a kernel shows later, at an event
/// or the next call; the shim runs a launch to its end and reports at once.
struct [[nodiscard]] LaunchStatus {
  static constexpr int kBadShape = -1;   ///< shapes, types or alignment that no kernel is for
  static constexpr int kShimFault = -2;  ///< the shim found a fault; see cuda_shim::take_faults()

  int code = 0;             ///< 0; or negative as above; or a cudaError_t
  const char* kernel = "";  ///< name of the kernel, for messages; static storage

  bool ok() const { return code == 0; }
};

/// Types of elements that kernels read or write as plain numbers.
enum class ElementType : std::uint8_t { kF32, kF16, kBF16 };

constexpr std::size_t element_bytes(ElementType type) {
  return type == ElementType::kF32 ? 4 : 2;
}

/// Types of weights that kernels read. Blocks are those of GGUF files, byte for byte.
enum class WeightType : std::uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_K, kQ6_K };

/// Elements of a block of a weight type; a row must be a multiple of it.
constexpr std::int32_t weight_block(WeightType type) {
  switch (type) {
    case WeightType::kQ8_0:
    case WeightType::kQ4_0:
      return 32;
    case WeightType::kQ4_K:
    case WeightType::kQ6_K:
      return 256;
    default:
      return 1;
  }
}

/// Bytes of a block.
constexpr std::size_t weight_block_bytes(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return 4;
    case WeightType::kQ8_0:
      return 34;
    case WeightType::kQ4_0:
      return 18;
    case WeightType::kQ4_K:
      return 144;
    case WeightType::kQ6_K:
      return 210;
    default:
      return 2;
  }
}

constexpr std::size_t weight_row_bytes(WeightType type, std::int32_t cols) {
  return static_cast<std::size_t>(cols / weight_block(type)) * weight_block_bytes(type);
}

/// A matrix as it lies in a file, row after row without gaps: `cols` inputs, `rows` outputs.
/// `data` is aligned to 16 bytes.
struct Weights {
  const void* data = nullptr;
  WeightType type = WeightType::kF32;
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  bool arranged = false;  ///< changed by arrange_weights()
};

/// Whether arrange_weights() has another order for such a matrix.
constexpr bool can_arrange(WeightType type, std::int32_t rows, std::int32_t cols) {
  const bool has_order =
      type == WeightType::kQ8_0 || type == WeightType::kQ4_0 || type == WeightType::kQ6_K;
  return has_order && rows > 0 && cols > 0 && cols % weight_block(type) == 0 &&
         std::int64_t{rows} * (cols / weight_block(type)) % 8 == 0;
}

/// Rows of numbers in one of the plain types. Row i starts i * stride elements after `data`.
/// For types of 2 bytes `data` is aligned to 4 bytes, else to 16.
struct Rows {
  void* data = nullptr;
  ElementType type = ElementType::kF32;
  std::int32_t stride = 0;  ///< elements

  bool present() const { return data != nullptr; }
};

}  // namespace sluice::kernels::cuda
