// Compiled as the kernels are: the words of CUDA come from the shim.
#include "tests/cuda_shim/device.hpp"

#include "kernels/cuda/device.hpp"
#include "tests/kernels/cuda/broken_kernels.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr int kCount = 64;

__global__ void broken_kernel(Fault fault, const float* in, float* out) {
  SharedMemory shared;
  float* const values = shared.take<float>(kCount);
  const int i = thread_x();
  values[i] = in[i];
  if (fault == Fault::kReadBehind && i == 3) values[i] = in[kCount];
  if (fault == Fault::kWriteBehind && i == 3) out[kCount] = 1.0F;
  if (fault == Fault::kWriteBefore && i == 3) out[-1] = 1.0F;
  if (fault == Fault::kWriteFarBehind && i == 3) out[kCount + 750] = 1.0F;
  if (fault == Fault::kSharedBehind && i == 3) values[kCount] = 1.0F;
  if (fault == Fault::kBarrierInBranch && i >= kCount / 2) return;
  if (fault == Fault::kTwoBarriers && i >= kCount / 2) {
    __syncthreads();
    return;
  }
  if (fault == Fault::kShuffleInBranch && i % 2 == 0)
    values[i] = __shfl_xor_sync(kAllLanes, values[i], 2);
  if (fault == Fault::kShuffleOfLeft) {
    if (i == 0) return;
    values[i] = warp_sum(values[i]);
  }
  if (fault != Fault::kMissingBarrier) __syncthreads();
  // The neighbour's value, from shared memory.
  const int neighbour = kCount - 1 - i;
  const float* const from = fault == Fault::kUnwrittenShared ? values + kCount : values;
  out[neighbour] = 2.0F * from[neighbour];
}

}  // namespace

LaunchStatus broken(Fault fault, const float* in, float* out, Stream stream) {
  const int floats = fault == Fault::kUnwrittenShared ? 2 * kCount : kCount;
  return launch("broken", broken_kernel, grid_of(1), kCount, shared_bytes<float>(floats), stream,
                fault, in, out);
}

}  // namespace sluice::kernels::cuda
