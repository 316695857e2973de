// The words of tests/cuda_shim/cuda_shim.hpp for a real device, so that the kernels' tests run
// there unchanged. Memory is pinned main memory, which kernels and tests can both touch.
#include <cuda_runtime_api.h>

#include <cstring>
#include <map>
#include <new>

#include "tests/cuda_shim/cuda_shim.hpp"

namespace sluice::cuda_shim {
namespace {

std::map<void*, std::size_t>& taken() {
  static std::map<void*, std::size_t> memory;
  return memory;
}

}  // namespace

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes + 16, cudaHostAllocMapped) != cudaSuccess)
    throw std::bad_alloc();
  std::memset(memory, 0xCD, bytes + 16);
  taken().emplace(memory, bytes);
  return memory;
}

void release(void* memory) {
  if (memory == nullptr) return;
  cudaDeviceSynchronize();
  taken().erase(memory);
  cudaFreeHost(memory);
}

std::size_t allocated_bytes() {
  std::size_t sum = 0;
  for (const auto& [memory, bytes] : taken()) sum += bytes;
  return sum;
}

/// Waits for the launch, whose results are read next.
std::vector<std::string> take_faults() {
  cudaError_t code = cudaDeviceSynchronize();
  if (code == cudaSuccess) code = cudaGetLastError();
  if (code == cudaSuccess) return {};
  return {std::string("the device reports ") + cudaGetErrorName(code)};
}

void set_order(Order, std::uint64_t) {}

Statistics statistics() {
  return {};
}

}  // namespace sluice::cuda_shim
