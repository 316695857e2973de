// What every .cu file starts from: the few words of CUDA that they use, and the launch itself.
//
// The sources are compiled twice: by nvcc, and as C++ together with the tests' host shim, which
// brings its own meaning of these words (by -include). Two habits keep them fit for both:
// - shared memory is the dynamic one alone, cut up by SharedMemory: the shim can then fill it with
//   rubbish and put a guard behind it;
// - sums that must come out the same everywhere are written with multiply_add() and the like,
//   which no compiler fuses or splits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch_types.hpp"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#elif !defined(SLUICE_CUDA_SHIM)
#error "compile with nvcc, or as C++ with the host shim of the tests"
#endif

// Before a loop whose arrays shall be registers; and one whose reads shall overlap.
#if defined(__CUDACC__)
#define SLUICE_UNROLL _Pragma("unroll")
#define SLUICE_UNROLL_4 _Pragma("unroll 4")
#else
#define SLUICE_UNROLL
#define SLUICE_UNROLL_4
#endif

namespace sluice::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

// -- indices --------------------------------------------------------------------------------------

__device__ inline int thread_x() {
  return static_cast<int>(threadIdx.x);
}
__device__ inline int block_x() {
  return static_cast<int>(blockIdx.x);
}
__device__ inline int block_y() {
  return static_cast<int>(blockIdx.y);
}
__device__ inline int block_z() {
  return static_cast<int>(blockIdx.z);
}
__device__ inline int block_threads() {
  return static_cast<int>(blockDim.x);
}
__device__ inline int lane_index() {
  return thread_x() % kWarp;
}
__device__ inline int warp_index() {
  return thread_x() / kWarp;
}

/// Rows of a matrix can lie further apart than an int reaches.
__device__ inline std::int64_t offset_of(int row, std::int64_t stride) {
  return row * stride;
}

// -- shared memory --------------------------------------------------------------------------------

#if defined(__CUDACC__)
__device__ inline unsigned char* shared_memory() {
  extern __shared__ __align__(16) unsigned char memory[];
  return memory;
}
#endif

/// Cuts a block's dynamic shared memory into arrays, each aligned to 16 bytes.
class SharedMemory {
 public:
  __device__ SharedMemory() : next_(shared_memory()) {}

  template <class T>
  __device__ T* take(int count) {
    T* const taken = reinterpret_cast<T*>(next_);
    next_ += (static_cast<std::size_t>(count) * sizeof(T) + 15) / 16 * 16;
    return taken;
  }

 private:
  unsigned char* next_;
};

/// Bytes that take<T>(count) uses.
template <class T>
constexpr std::size_t shared_bytes(int count) {
  return (static_cast<std::size_t>(count) * sizeof(T) + 15) / 16 * 16;
}

// -- arithmetic -----------------------------------------------------------------------------------

/// a * b + c, rounded once.
__device__ inline float multiply_add(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
/// a * b and a + b, never fused with what stands around them.
__device__ inline float multiply(float a, float b) {
  return __fmul_rn(a, b);
}
__device__ inline float sum(float a, float b) {
  return __fadd_rn(a, b);
}

#if defined(__CUDACC__)
/// IEEE binary16, as its bits; to nearest, ties to even.
__device__ inline float half_to_float(std::uint16_t half) {
  return __half2float(__ushort_as_half(half));
}
__device__ inline std::uint16_t float_to_half(float x) {
  return __half_as_ushort(__float2half_rn(x));
}
#endif

/// bfloat16 is the upper half of an f32; to nearest, ties to even; NaN stays NaN.
__device__ inline float bfloat16_to_float(std::uint16_t bits) {
  return __uint_as_float(static_cast<unsigned>(bits) << 16);
}
__device__ inline std::uint16_t float_to_bfloat16(float x) {
  const unsigned bits = __float_as_uint(x);
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  const unsigned rounded = nan ? bits | 0x00400000U : bits + 0x7FFFU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>(rounded >> 16);
}

__device__ inline float infinity() {
  return __uint_as_float(0x7F800000U);
}

/// Not NaN, not infinite.
__device__ inline bool finite(float x) {
  return (__float_as_uint(x) & 0x7F800000U) != 0x7F800000U;
}

// -- warps and blocks -----------------------------------------------------------------------------

/// The sum over a warp, in all lanes; the order is that of a butterfly.
template <class T>
__device__ inline T warp_sum(T x) {
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

/// The sums of several numbers over a warp: that of x[v] in lanes v * 32 / kCount and following.
/// Each is summed by the same butterfly as in warp_sum(), so to the same bits; but a step moves
/// half as many numbers as the one before it. kCount is a power of two, at most 32; x is used up.
template <int kCount>
__device__ inline float warp_sums(float* x) {
  int step = kWarp / 2;
  SLUICE_UNROLL
  for (int half = kCount / 2; half > 0; half /= 2) {
    const bool upper = (lane_index() & step) != 0;
    SLUICE_UNROLL
    for (int i = 0; i < half; ++i) {
      const float given = upper ? x[i] : x[i + half];
      const float kept = upper ? x[i + half] : x[i];
      x[i] = kept + __shfl_xor_sync(kAllLanes, given, step);
    }
    step /= 2;
  }
  float sum = x[0];
  SLUICE_UNROLL
  for (; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  return sum;
}

__device__ inline float warp_max(float x) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, x, step);
    x = other > x ? other : x;
  }
  return x;
}

/// The sum over a block, in all threads; `work` is shared, one T a warp. Every thread calls it.
template <class T>
__device__ inline T block_sum(T x, T* work) {
  const T in_warp = warp_sum(x);
  __syncthreads();  // the last use of `work` is over
  if (lane_index() == 0) work[warp_index()] = in_warp;
  __syncthreads();
  T total = work[0];
  for (int i = 1; i < block_threads() / kWarp; ++i) total += work[i];
  return total;
}

// -- rows of plain numbers ------------------------------------------------------------------------

__device__ inline float load_element(const void* data, ElementType type, std::int64_t i) {
  if (type == ElementType::kF32) return static_cast<const float*>(data)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[i];
  return type == ElementType::kF16 ? half_to_float(bits) : bfloat16_to_float(bits);
}

__device__ inline void store_element(void* data, ElementType type, std::int64_t i, float x) {
  if (type == ElementType::kF32)
    static_cast<float*>(data)[i] = x;
  else
    static_cast<std::uint16_t*>(data)[i] =
        type == ElementType::kF16 ? float_to_half(x) : float_to_bfloat16(x);
}

// -- launching ------------------------------------------------------------------------------------

/// Shared memory that a kernel may have without setting an attribute.
inline constexpr std::size_t kSharedWithoutAsking = std::size_t{48} << 10;

/// Starts a kernel. Arguments are converted to the kernel's parameters.
template <class... Parameters, class... Arguments>
LaunchStatus launch(const char* name, void (*kernel)(Parameters...), dim3 grid, int threads,
                    std::size_t shared, Stream stream, const Arguments&... arguments) {
#if defined(__CUDACC__)
  if (shared > kSharedWithoutAsking) {
    const cudaError_t status = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    if (status != cudaSuccess) return {static_cast<int>(status), name};
  }
  kernel<<<grid, dim3(static_cast<unsigned>(threads)), shared, stream>>>(
      static_cast<Parameters>(arguments)...);
  return {static_cast<int>(cudaGetLastError()), name};
#else
  static_cast<void>(stream);
  const bool faultless = cuda_shim::run_grid(
      name, grid, threads, shared, [&] { kernel(static_cast<Parameters>(arguments)...); });
  return {faultless ? 0 : LaunchStatus::kShimFault, name};
#endif
}

inline dim3 grid_of(std::int64_t x, std::int64_t y = 1, std::int64_t z = 1) {
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z));
}

constexpr std::int64_t divide_up(std::int64_t n, std::int64_t by) {
  return (n + by - 1) / by;
}

/// Rows along a grid's second dimension, which ends at 65535; a kernel strides over the rest.
constexpr std::int64_t grid_rows(std::int64_t rows) {
  return rows < 65535 ? rows : 65535;
}

inline LaunchStatus bad_shape(const char* name) {
  return {LaunchStatus::kBadShape, name};
}

/// Nothing to do.
inline LaunchStatus nothing(const char* name) {
  return {0, name};
}

}  // namespace sluice::kernels::cuda
