#include "bench/suites/random_weights.hpp"

#include <cmath>
#include <cstring>

#include "kernels/cpu/quantize.hpp"

namespace sluice::bench {
namespace {

/// Where a block keeps its f16 scale, its f16 minimum scale (or kNone), and the deviation of its
/// numbers when all other bits are random and the scale is 1.
struct BlockScales {
  static constexpr std::size_t kNone = 1000;
  std::size_t scale;
  std::size_t min;
  float deviation;
};

BlockScales block_scales(DType type) {
  constexpr std::size_t kNone = BlockScales::kNone;
  switch (type) {
    case DType::kQ8_0:
      return {0, kNone, 73.9F};  // uniform in -128 .. 127
    case DType::kQ4_0:
      return {0, kNone, 4.6F};
    case DType::kQ4_1:
      return {0, 2, 4.6F};
    case DType::kQ5_0:
      return {0, kNone, 9.2F};
    case DType::kQ5_1:
      return {0, 2, 9.2F};
    case DType::kQ2_K:
      return {80, 82, 12.0F};
    case DType::kQ3_K:
      return {108, kNone, 42.0F};
    case DType::kQ4_K:
      return {0, 2, 168.0F};  // 4.6 times the root mean square of a 6-bit scale
    case DType::kQ5_K:
      return {0, 2, 337.0F};
    case DType::kQ6_K:
      return {208, kNone, 1365.0F};
    case DType::kIQ4_NL:
      return {0, kNone, 68.0F};
    case DType::kIQ4_XS:
      return {0, kNone, 1250.0F};
    default:
      return {kNone, kNone, 1.0F};
  }
}

void put_half(std::byte* at, float value) {
  const std::uint16_t half = kernels::float_to_half(value);
  std::memcpy(at, &half, sizeof(half));
}

/// MXFP4: a block begins with the exponent of its scale; its numbers, 0 to 6 in 8 steps, have the
/// root mean square 2.93.
void set_exponents(std::vector<std::byte>& blocks, std::size_t block_bytes, float deviation) {
  const int exponent = 127 + static_cast<int>(std::lround(std::log2(deviation / 2.93F)));
  for (std::size_t at = 0; at < blocks.size(); at += block_bytes)
    blocks[at] = static_cast<std::byte>(exponent);
}

/// The minimum's scale that moves numbers, which are positive on their own, around zero.
float balancing_min(DType type, float scale) {
  if (type == DType::kQ4_1) return -7.5F * scale;
  if (type == DType::kQ5_1) return -15.5F * scale;
  if (type == DType::kQ2_K) return 1.5F * scale;
  return type == DType::kQ4_K ? 7.5F * scale : 15.5F * scale;
}

}  // namespace

float Random::normal() {
  const std::uint64_t bits = next();
  float sum = 0;
  for (unsigned i = 0; i < 4; ++i)
    sum += static_cast<float>(bits >> (16 * i) & 0xFFFFU) / 65536.0F - 0.5F;
  return sum * 1.7320508F;
}

std::vector<std::byte> random_weights(DType type, std::size_t elements, float deviation,
                                      Random& random) {
  std::vector<std::byte> out(bytes_for(type, elements));
  const DTypeTraits& t = traits(type);
  if (t.block_size == 1) {
    for (std::size_t i = 0; i < elements; ++i) {
      const float value = random.normal() * deviation;
      const std::uint16_t small =
          type == DType::kF16 ? kernels::float_to_half(value) : kernels::float_to_bfloat16(value);
      if (t.block_bytes == 4)
        std::memcpy(out.data() + 4 * i, &value, 4);
      else
        std::memcpy(out.data() + 2 * i, &small, 2);
    }
    return out;
  }
  for (std::size_t i = 0; i < out.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t bits = random.next();
    std::memcpy(out.data() + i, &bits, std::min(sizeof(bits), out.size() - i));
  }
  if (type == DType::kMXFP4) {
    set_exponents(out, t.block_bytes, deviation);
    return out;
  }
  const BlockScales where = block_scales(type);
  const float scale = deviation / where.deviation;
  for (std::size_t block = 0; block < out.size(); block += t.block_bytes) {
    put_half(out.data() + block + where.scale, scale);
    if (where.min != BlockScales::kNone)
      put_half(out.data() + block + where.min, balancing_min(type, scale));
  }
  return out;
}

}  // namespace sluice::bench
