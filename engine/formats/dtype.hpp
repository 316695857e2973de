// Registry of element types found in weight files and used for KV storage.
//
// A type is described once here; readers, planners and kernels look it up. Adding a type means
// one enum value, one row in the table in dtype.cpp and one dequantising kernel.
//
// Worked example: a row of 4096 weights in Q8_0 has 4096 / 32 = 128 blocks of 34 bytes
// (one f16 scale and 32 int8), so bytes_for(DType::kQ8_0, 4096) == 4352.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sluice {

enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
};

struct DTypeTraits {
  DType type;
  std::string_view name;      ///< as users write and read it: "f32", "f16", "bf16", "q8_0"
  std::uint32_t gguf_id;      ///< number of the type in GGUF files
  std::uint32_t block_size;   ///< elements in a block; 1 for plain types
  std::uint32_t block_bytes;  ///< bytes of a block
  /// Turns `n` elements (a multiple of block_size) at `src` into floats at `dst`.
  void (*dequantize)(const std::byte* src, float* dst, std::size_t n);
  /// The inverse, to the nearest that the type can hold; null for types that are only read.
  void (*quantize)(const float* src, std::byte* dst, std::size_t n);
};

/// Traits of a known type. Never fails.
const DTypeTraits& traits(DType type);

/// Looks a type up by its GGUF number; empty when this build does not know it.
std::optional<DType> dtype_from_gguf(std::uint32_t gguf_id);

/// Looks a type up by name, case-insensitively; empty when unknown.
std::optional<DType> dtype_from_name(std::string_view name);

/// Every registered type, for messages and tables.
std::span<const DTypeTraits> all_dtypes();

/// Bytes of `elements` contiguous elements. `elements` must be a multiple of the block size.
std::size_t bytes_for(DType type, std::size_t elements);

}  // namespace sluice
