// Matrix products by cuBLAS (its cublasLt interface), which is loaded when the program runs: it is
// half a gigabyte, and a program that does without it starts without it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "kernels/cuda/device_api.hpp"

namespace sluice::kernels::cuda {

/// Repeatable products: for each shape of a weight one algorithm, chosen for a fixed number of
/// rows, that adds up each output in one block (no reduction across blocks), with a work space of
/// fixed size. The number of rows then decides only how many blocks there are.
class CublasGemm {
 public:
  /// Bytes of device memory that run() needs.
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  /// Loads the library. Null when that fails, with the reason in `why_not`.
  static std::unique_ptr<CublasGemm> load(std::string& why_not);

  virtual ~CublasGemm() = default;
  /// `workspace`: kWorkspaceBytes of the device.
  virtual DeviceError run(const Gemm& product, void* workspace, cudaStream_t stream) = 0;
};

}  // namespace sluice::kernels::cuda
