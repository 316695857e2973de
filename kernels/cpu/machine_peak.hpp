// Loops that do nothing but what a processor does best, to measure its limits: results of a
// benchmark mean something only beside them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/cpu_info.hpp"

namespace sluice::kernels {

/// Each function does `rounds` rounds in the calling thread and returns how many operations (a
/// multiplication and an addition count as two) or bytes that were.
struct PeakLoops {
  std::uint64_t (*int8_dots)(std::uint64_t rounds) = nullptr;  ///< 8-bit dot products, in registers
  std::uint64_t (*bf16_dots)(std::uint64_t rounds) = nullptr;  ///< null without the instruction
  std::uint64_t (*f32_fmas)(std::uint64_t rounds) = nullptr;   ///< fused multiply-adds
};

/// For the best instructions that `isa` includes; it must be supported.
PeakLoops peak_loops(Isa isa);

/// Reads `bytes` bytes in order; returns a number that depends on all of them.
std::uint64_t read_bytes(const std::byte* data, std::size_t bytes);

}  // namespace sluice::kernels
