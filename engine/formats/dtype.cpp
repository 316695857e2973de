#include "engine/formats/dtype.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "kernels/cpu/dequantize.hpp"
#include "kernels/cpu/quantize.hpp"

namespace sluice {
namespace {

/// In the order of DType, so that a type indexes its row.
constexpr std::array kTable = {
    DTypeTraits{DType::kF32, "f32", 0, 1, 4, kernels::dequantize_f32, kernels::quantize_f32},
    DTypeTraits{DType::kF16, "f16", 1, 1, 2, kernels::dequantize_f16, kernels::quantize_f16},
    DTypeTraits{DType::kBF16, "bf16", 30, 1, 2, kernels::dequantize_bf16, kernels::quantize_bf16},
    DTypeTraits{DType::kQ8_0, "q8_0", 8, 32, 34, kernels::dequantize_q8_0, kernels::quantize_q8_0},
    DTypeTraits{DType::kQ4_0, "q4_0", 2, 32, 18, kernels::dequantize_q4_0, kernels::quantize_q4_0},
    DTypeTraits{DType::kQ4_1, "q4_1", 3, 32, 20, kernels::dequantize_q4_1, kernels::quantize_q4_1},
    DTypeTraits{DType::kQ5_0, "q5_0", 6, 32, 22, kernels::dequantize_q5_0, kernels::quantize_q5_0},
    DTypeTraits{DType::kQ5_1, "q5_1", 7, 32, 24, kernels::dequantize_q5_1, kernels::quantize_q5_1},
    DTypeTraits{DType::kQ2_K, "q2_k", 10, 256, 84, kernels::dequantize_q2_k,
                kernels::quantize_q2_k},
    DTypeTraits{DType::kQ3_K, "q3_k", 11, 256, 110, kernels::dequantize_q3_k,
                kernels::quantize_q3_k},
    DTypeTraits{DType::kQ4_K, "q4_k", 12, 256, 144, kernels::dequantize_q4_k,
                kernels::quantize_q4_k},
    DTypeTraits{DType::kQ5_K, "q5_k", 13, 256, 176, kernels::dequantize_q5_k,
                kernels::quantize_q5_k},
    DTypeTraits{DType::kQ6_K, "q6_k", 14, 256, 210, kernels::dequantize_q6_k,
                kernels::quantize_q6_k},
    DTypeTraits{DType::kIQ4_NL, "iq4_nl", 20, 32, 18, kernels::dequantize_iq4_nl,
                kernels::quantize_iq4_nl},
    DTypeTraits{DType::kIQ4_XS, "iq4_xs", 23, 256, 136, kernels::dequantize_iq4_xs, nullptr},
    DTypeTraits{DType::kMXFP4, "mxfp4", 39, 32, 17, kernels::dequantize_mxfp4, nullptr},
};

constexpr bool table_is_in_enum_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable[i].type) != i) return false;
  }
  return true;
}
static_assert(table_is_in_enum_order());

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

const DTypeTraits& traits(DType type) {
  return kTable[static_cast<std::size_t>(type)];
}

std::optional<DType> dtype_from_gguf(std::uint32_t gguf_id) {
  for (const DTypeTraits& row : kTable) {
    if (row.gguf_id == gguf_id) return row.type;
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeTraits& row : kTable) {
    if (equal_ignoring_case(row.name, name)) return row.type;
  }
  return std::nullopt;
}

std::span<const DTypeTraits> all_dtypes() {
  return kTable;
}

std::size_t bytes_for(DType type, std::size_t elements) {
  const DTypeTraits& row = traits(type);
  assert(elements % row.block_size == 0);
  return elements / row.block_size * row.block_bytes;
}

}  // namespace sluice
