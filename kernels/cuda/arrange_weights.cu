// Blocks of a matrix brought into an order that can be read 16 bytes at a time, in place.
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/weight_blocks.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxBlockBytes = 210;

/// Where byte `i` of block `k` goes within its group of eight; see parts_q8_0() and its neighbours.
__device__ int arranged_place(WeightType type, int k, int i) {
  if (type == WeightType::kQ8_0) return i < 2 ? 2 * k + i : 16 + 32 * k + (i - 2);
  if (type == WeightType::kQ4_0) return i < 2 ? 2 * k + i : 16 + 16 * k + (i - 2);
  if (i < 128) return 128 * k + i;
  if (i < 192) return 1024 + 64 * k + (i - 128);
  if (i < 208) return 1536 + 16 * k + (i - 192);
  return 1664 + 2 * k + (i - 208);
}

/// Grid: any; blocks stride over the groups. Shared: the bytes of a group.
__global__ void __launch_bounds__(kThreads)
    arrange_kernel(unsigned char* data, WeightType type, int block_bytes, std::int64_t groups) {
  SharedMemory shared;
  unsigned char* const copy = shared.take<unsigned char>(kArrangedBlocks * kMaxBlockBytes);
  const int group_bytes = kArrangedBlocks * block_bytes;
  for (std::int64_t group = block_x(); group < groups; group += static_cast<int>(gridDim.x)) {
    unsigned char* const bytes = data + group * group_bytes;
    for (int i = thread_x(); i < group_bytes; i += kThreads) copy[i] = bytes[i];
    __syncthreads();
    for (int i = thread_x(); i < group_bytes; i += kThreads)
      bytes[arranged_place(type, i / block_bytes, i % block_bytes)] = copy[i];
    __syncthreads();
  }
}

}  // namespace

LaunchStatus arrange_weights(void* data, WeightType type, std::int32_t rows, std::int32_t cols,
                             Stream stream) {
  constexpr const char* kName = "arrange_weights";
  constexpr std::int64_t kMostBlocks = 16384;
  if (data == nullptr || !can_arrange(type, rows, cols)) return bad_shape(kName);
  const std::int64_t groups = std::int64_t{rows} * (cols / weight_block(type)) / kArrangedBlocks;
  return launch(kName, arrange_kernel, grid_of(groups < kMostBlocks ? groups : kMostBlocks),
                kThreads, shared_bytes<unsigned char>(kArrangedBlocks * kMaxBlockBytes), stream,
                static_cast<unsigned char*>(data), type, static_cast<int>(weight_block_bytes(type)),
                groups);
}

}  // namespace sluice::kernels::cuda
