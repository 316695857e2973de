// Between the kernels and the machine that runs them: where a thread is, how it waits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/cuda_shim/vector_types.hpp"

namespace sluice::cuda_shim {

/// A place in the sources.
struct Place {
  const char* file = "";
  int line = 0;
  bool operator==(const Place&) const = default;
};

/// The thread that runs now.
struct Current {
  dim3 thread;
  dim3 block;
  dim3 block_dim;
  dim3 grid_dim;
  unsigned char* shared = nullptr;
};
inline Current current;

/// A callable that outlives the call; no allocation.
class BodyRef {
 public:
  template <class F>
  BodyRef(const F& f)  // NOLINT: converts on purpose
      : object_(&f), call_([](const void* object) { (*static_cast<const F*>(object))(); }) {}
  void operator()() const { call_(object_); }

 private:
  const void* object_;
  void (*call_)(const void*);
};

/// Runs `body` once for every thread of the grid. False: a fault was kept.
bool run_grid(const char* name, dim3 grid, int threads, std::size_t shared_bytes, BodyRef body);

/// Waits for all threads of the block.
void sync_threads(Place place);

/// Waits for the lanes of `mask` and returns what they brought, 32 values; those outside the mask
/// mean nothing. Valid until the next call.
const std::uint64_t* meet(Place place, unsigned mask, std::uint64_t value);

/// Ends the launch with a fault.
[[noreturn]] void fault_at(Place place, const char* what);

}  // namespace sluice::cuda_shim
