#include "bench/suites/machine_limits.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>

#include "kernels/cpu/machine_peak.hpp"

namespace sluice::bench {
namespace {

constexpr std::size_t kMemoryBytes = std::size_t{256} << 20;  // far more than any cache
constexpr int kRepeats = 4;

/// Amount per second, in 10^9, of work(thread) done by all threads at the same time.
template <class Work>
double rate(kernels::ThreadPool& threads, const Work& work) {
  double best = 0;
  const auto count = static_cast<std::size_t>(threads.threads());
  for (int i = 0; i < kRepeats; ++i) {
    std::atomic<std::uint64_t> amount{0};
    const auto start = std::chrono::steady_clock::now();
    threads.for_each_chunk(
        count, 1, [&](std::size_t part, std::size_t, std::size_t) { amount += work(part); });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(amount.load()) / seconds.count() * 1e-9);
  }
  return best;
}

}  // namespace

LimitProbe::LimitProbe(kernels::Isa isa, int threads) : isa_(isa), threads_(threads) {
  void* address =
      ::mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  ::madvise(address, kMemoryBytes, MADV_HUGEPAGE);
#endif
  memory_ = static_cast<std::byte*>(address);
  for (std::size_t i = 0; i < kMemoryBytes; i += 4096) memory_[i] = std::byte{1};
}

LimitProbe::~LimitProbe() {
  if (memory_ != nullptr) ::munmap(memory_, kMemoryBytes);
}

MachineLimits LimitProbe::measure() {
  if (known_) return *known_;
  const kernels::PeakLoops loops = kernels::peak_loops(isa_);
  constexpr std::uint64_t kRounds = 2'000'000;  // a dozen milliseconds
  const std::size_t part_bytes = kMemoryBytes / static_cast<std::size_t>(threads_.threads());
  std::atomic<std::uint64_t> sink{0};
  MachineLimits limits;
  limits.read_gbs = rate(threads_, [&](std::size_t part) {
    sink += kernels::read_bytes(memory_ + part * part_bytes, part_bytes);
    return std::uint64_t{part_bytes};
  });
  limits.int8_gops = rate(threads_, [&](std::size_t) { return loops.int8_dots(kRounds); });
  if (loops.bf16_dots != nullptr)
    limits.bf16_gflops = rate(threads_, [&](std::size_t) { return loops.bf16_dots(kRounds); });
  limits.f32_gflops = rate(threads_, [&](std::size_t) { return loops.f32_fmas(kRounds); });
  return limits;
}

}  // namespace sluice::bench
