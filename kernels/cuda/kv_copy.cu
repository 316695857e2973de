// Copies of whole KV blocks: inside the pool, and to and from pinned host memory.
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 128;

template <class T>
__device__ void copy(const unsigned char* from, unsigned char* to, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(T);
  for (auto i = static_cast<std::size_t>(thread_x()); i < count; i += kThreads)
    reinterpret_cast<T*>(to)[i] = reinterpret_cast<const T*>(from)[i];
}

/// Grid: (regions, pairs).
__global__ void copy_blocks_kernel(const BlockRegion* regions, const BlockPair* pairs, int count) {
  const BlockRegion region = regions[block_x()];
  const std::size_t bytes = region.block_bytes;
  for (int i = block_y(); i < count; i += static_cast<int>(gridDim.y)) {
    const BlockPair pair = pairs[i];
    if (pair.from < 0 || pair.to < 0) continue;
    const auto* const from = static_cast<const unsigned char*>(region.from) +
                             static_cast<std::size_t>(pair.from) * bytes;
    auto* const to =
        static_cast<unsigned char*>(region.to) + static_cast<std::size_t>(pair.to) * bytes;
    const auto bits = reinterpret_cast<std::uintptr_t>(from) |
                      reinterpret_cast<std::uintptr_t>(to) | static_cast<std::uintptr_t>(bytes);
    if (bits % sizeof(uint4) == 0)
      copy<uint4>(from, to, bytes);
    else
      copy<unsigned char>(from, to, bytes);
  }
}

}  // namespace

LaunchStatus copy_blocks(const BlockRegion* regions, std::int32_t num_regions,
                         const BlockPair* pairs, std::int32_t num_pairs, Stream stream) {
  constexpr const char* kName = "copy_blocks";
  if (num_regions < 0 || num_pairs < 0) return bad_shape(kName);
  if (num_regions == 0 || num_pairs == 0) return nothing(kName);
  if (regions == nullptr || pairs == nullptr) return bad_shape(kName);
  return launch(kName, copy_blocks_kernel, grid_of(num_regions, grid_rows(num_pairs)), kThreads, 0,
                stream, regions, pairs, num_pairs);
}

}  // namespace sluice::kernels::cuda
