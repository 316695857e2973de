// Runs the CUDA kernels on the CPU, for tests: the memory and the reports of the host shim.
//
// The library sluice_cuda_shim holds the .cu files of kernels/cuda, compiled as C++. A launch runs
// the whole grid before it returns, in the calling thread: block after block, the threads of a
// block as fibers. What it finds wrong is kept as sentences until take_faults().
//
// What it finds:
// - access beyond a buffer of allocate(): reads and writes behind its end (up to 15 bytes of
//   padding excepted, where only writes are seen) and far before its start at once; writes close
//   before its start when the launch ends;
// - barriers that not all threads of a block reach, or different ones;
// - warp operations with lanes that left or wait elsewhere;
// - use of shared memory that was not written: it starts as 0xCD bytes (floats near -4e8);
// - missing barriers: run a kernel under several orders and compare.
//
// One thread uses it at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::cuda_shim {

/// Memory that stands for device memory, aligned to 16 bytes or more, filled with 0xCD. Throws
/// std::bad_alloc. 0 bytes give a pointer that must not be used but for release().
void* allocate(std::size_t bytes);
/// Takes back what allocate() gave; null is allowed.
void release(void* memory);

/// Bytes given by allocate() and not taken back.
std::size_t allocated_bytes();

/// One sentence for each fault since the last call; at most one a launch.
std::vector<std::string> take_faults();

/// In which order the threads of a block run between barriers, and blocks one after the other.
/// Except with kAscending, the first in the order runs as far as it can before the next one does.
enum class Order {
  kAscending,
  kDescending,
  kShuffled,  ///< another order after every barrier
};
void set_order(Order order, std::uint64_t seed = 0);

struct Statistics {
  std::uint64_t launches = 0;
  std::uint64_t blocks = 0;
  std::uint64_t threads = 0;
  std::uint64_t switches = 0;  ///< from fiber to fiber
};
/// Since the start of the program.
Statistics statistics();

}  // namespace sluice::cuda_shim
