// The measuring loops that need an instruction set; machine_peak.hpp chooses among them.
#pragma once

#include <cstdint>

namespace sluice::kernels {

#if defined(__x86_64__)
std::uint64_t int8_dots_avx2(std::uint64_t rounds);
std::uint64_t f32_fmas_avx2(std::uint64_t rounds);
std::uint64_t f32_fmas_avx512(std::uint64_t rounds);
std::uint64_t int8_dots_vnni(std::uint64_t rounds);
std::uint64_t bf16_dots_avx512(std::uint64_t rounds);
#endif

}  // namespace sluice::kernels
