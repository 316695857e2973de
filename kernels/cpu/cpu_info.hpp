// What the processor and its surroundings offer.
#pragma once

#include <optional>
#include <string_view>

namespace sluice::kernels {

/// Instruction sets for which there are kernels, from the least to the most capable.
enum class Isa { kScalar, kAvx2, kAvx512, kAvx512Vnni };

/// "scalar", "avx2", "avx512", "avx512vnni": as users write it.
std::string_view isa_key(Isa isa);
/// "scalar", "AVX2", "AVX-512", "AVX-512 VNNI": for people.
std::string_view isa_name(Isa isa);
std::optional<Isa> isa_from_key(std::string_view key);

/// True when this processor and operating system can run the kernels of `isa`.
bool isa_supported(Isa isa);
/// The most capable one that is supported.
Isa best_isa();

/// Physical cores that this process may use: the affinity mask without hyper-threads, limited
/// by the control group's CPU quota. At least 1.
int usable_physical_cores();

}  // namespace sluice::kernels
