#include "kernels/cpu/machine_peak.hpp"

#include <cstring>

#include "kernels/cpu/machine_peak_loops.hpp"

namespace sluice::kernels {
namespace {

/// What a compiler makes of plain loops.
std::uint64_t plain_f32(std::uint64_t rounds) {
  float sums[32] = {};
  for (std::uint64_t round = 0; round < rounds; ++round)
    for (float& sum : sums) sum = sum * 0.5F + 1.0F;
  volatile float sink = sums[0];
  (void)sink;
  return rounds * 32 * 2;
}

std::uint64_t plain_int8(std::uint64_t rounds) {
  std::int32_t sums[32] = {};
  for (std::uint64_t round = 0; round < rounds; ++round)
    for (std::int32_t& sum : sums) sum = static_cast<std::int8_t>(sum) * 3 + 1;
  volatile std::int32_t sink = sums[0];
  (void)sink;
  return rounds * 32 * 2;
}

}  // namespace

PeakLoops peak_loops(Isa isa) {
#if defined(__x86_64__)
  const bool bf16 = __builtin_cpu_supports("avx512bf16") != 0;
  if (isa == Isa::kAvx512Vnni)
    return {int8_dots_vnni, bf16 ? bf16_dots_avx512 : nullptr, f32_fmas_avx512};
  if (isa == Isa::kAvx512) return {int8_dots_avx2, nullptr, f32_fmas_avx512};
  if (isa == Isa::kAvx2) return {int8_dots_avx2, nullptr, f32_fmas_avx2};
#else
  (void)isa;
#endif
  return {plain_int8, nullptr, plain_f32};
}

std::uint64_t read_bytes(const std::byte* data, std::size_t bytes) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + sizeof(sums) <= bytes; i += sizeof(sums))
    for (std::size_t lane = 0; lane < 8; ++lane) {
      std::uint64_t word = 0;
      std::memcpy(&word, data + i + lane * sizeof(word), sizeof(word));
      sums[lane] |= word;
    }
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all |= sum;
  return all;
}

}  // namespace sluice::kernels
