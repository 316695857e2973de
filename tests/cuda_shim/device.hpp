// The words of CUDA for a C++ compiler: put before each .cu source by -include.
//
// Only what kernels/cuda uses. Operations that wait (barriers, warp operations) say where they
// stand, so that a wait for threads that never come can be reported with its place.
#pragma once

#define SLUICE_CUDA_SHIM 1

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/cuda_shim/grid.hpp"
#include "tests/cuda_shim/half.hpp"
#include "tests/cuda_shim/vector_types.hpp"

// CUDA has these names outside namespaces.
// NOLINTBEGIN
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

#define threadIdx (::sluice::cuda_shim::current.thread)
#define blockIdx (::sluice::cuda_shim::current.block)
#define blockDim (::sluice::cuda_shim::current.block_dim)
#define gridDim (::sluice::cuda_shim::current.grid_dim)

#define SLUICE_SHIM_PLACE      \
  ::sluice::cuda_shim::Place { \
    __FILE__, __LINE__         \
  }
#define __syncthreads() ::sluice::cuda_shim::sync_threads(SLUICE_SHIM_PLACE)
#define __syncwarp() ::sluice::cuda_shim::meet(SLUICE_SHIM_PLACE, 0xFFFFFFFFU, 0)
#define __shfl_sync(mask, value, lane) \
  ::sluice::cuda_shim::shuffle(SLUICE_SHIM_PLACE, mask, value, (lane))
#define __shfl_xor_sync(mask, value, step) \
  ::sluice::cuda_shim::shuffle(SLUICE_SHIM_PLACE, mask, value, ::sluice::cuda_shim::lane() ^ (step))
#define __shfl_up_sync(mask, value, step) \
  ::sluice::cuda_shim::shuffle_by(SLUICE_SHIM_PLACE, mask, value, -static_cast<int>(step))
#define __shfl_down_sync(mask, value, step) \
  ::sluice::cuda_shim::shuffle_by(SLUICE_SHIM_PLACE, mask, value, static_cast<int>(step))
#define __ballot_sync(mask, predicate) \
  ::sluice::cuda_shim::ballot(SLUICE_SHIM_PLACE, mask, (predicate))
#define __any_sync(mask, predicate) (__ballot_sync(mask, predicate) != 0)
// NOLINTEND

namespace sluice::cuda_shim {

inline int lane() {
  return static_cast<int>(current.thread.x % 32U);
}

template <class T>
T shuffle(Place place, unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  const std::uint64_t* values = meet(place, mask, bits);
  const auto from = static_cast<unsigned>(source) % 32U;
  if ((mask >> from & 1U) == 0) fault_at(place, "a shuffle reads a lane outside its mask");
  std::memcpy(&value, values + from, sizeof(T));
  return value;
}

/// From the lane `step` further on; the own value where there is none.
template <class T>
T shuffle_by(Place place, unsigned mask, T value, int step) {
  const int from = lane() + step;
  return shuffle(place, mask, value, from < 0 || from > 31 ? lane() : from);
}

inline unsigned ballot(Place place, unsigned mask, bool predicate) {
  const std::uint64_t* values = meet(place, mask, predicate ? 1 : 0);
  unsigned result = 0;
  for (unsigned i = 0; i < 32; ++i)
    if ((mask >> i & 1U) != 0 && values[i] != 0) result |= 1U << i;
  return result;
}

}  // namespace sluice::cuda_shim

namespace sluice::kernels::cuda {
inline unsigned char* shared_memory() {
  return cuda_shim::current.shared;
}
inline float half_to_float(std::uint16_t half) {
  return cuda_shim::half_to_float(half);
}
inline std::uint16_t float_to_half(float x) {
  return cuda_shim::float_to_half(x);
}
}  // namespace sluice::kernels::cuda

// -- arithmetic -----------------------------------------------------------------------------------

inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((static_cast<Wide>(a) * b) >> 64);
}
inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __float2int_rn(float x) {
  return static_cast<int>(std::nearbyint(x));
}

/// Sum of the products of four signed bytes.
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i)
    c += static_cast<std::int8_t>(a >> (8 * i)) * static_cast<std::int8_t>(b >> (8 * i));
  return c;
}

// -- atomics: threads are fibers, so plain arithmetic is atomic -----------------------------------

template <class T>
T atomicAdd(T* at, T x) {
  static_assert(static_cast<T>(0.5F) == T{}, "sums of floating-point numbers need an order");
  const T old = *at;
  *at = old + x;
  return old;
}
template <class T>
T atomicExch(T* at, T x) {
  const T old = *at;
  *at = x;
  return old;
}
template <class T>
T atomicMin(T* at, T x) {
  const T old = *at;
  if (x < old) *at = x;
  return old;
}
template <class T>
T atomicMax(T* at, T x) {
  const T old = *at;
  if (x > old) *at = x;
  return old;
}
