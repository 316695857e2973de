#include "kernels/cuda/cublas_gemm.hpp"

#include <dlfcn.h>

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif

#include <array>
#include <cstdint>
#include <map>
#include <utility>

namespace sluice::kernels::cuda {

#if __has_include(<cublasLt.h>)

namespace {

/// Rows that the algorithm of a shape is chosen for.
constexpr std::uint64_t kTypicalRows = 512;

#ifndef SLUICE_CUDA_LIBRARY_DIR
#define SLUICE_CUDA_LIBRARY_DIR ""
#endif

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

/// The version that this was compiled for: from where the system looks, or where it was built.
Library open_library(std::string& why_not) {
  const std::string name = "libcublasLt.so." + std::to_string(CUDART_VERSION / 1000);
  const std::string folder = SLUICE_CUDA_LIBRARY_DIR;
  for (const std::string& path : {name, folder + "/" + name}) {
    if (Library library{dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)}) return library;
  }
  why_not = name + " was not found; install cuBLAS of CUDA " +
            std::to_string(CUDART_VERSION / 1000) + " or add its folder to LD_LIBRARY_PATH";
  return nullptr;
}

/// The functions used, as they are declared.
struct Functions {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
};

template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, Functions& f) {
  return find(library, "cublasLtCreate", f.create) && find(library, "cublasLtDestroy", f.destroy) &&
         find(library, "cublasLtMatmul", f.matmul) &&
         find(library, "cublasLtMatmulDescCreate", f.desc_create) &&
         find(library, "cublasLtMatmulDescDestroy", f.desc_destroy) &&
         find(library, "cublasLtMatmulDescSetAttribute", f.desc_set) &&
         find(library, "cublasLtMatrixLayoutCreate", f.layout_create) &&
         find(library, "cublasLtMatrixLayoutDestroy", f.layout_destroy) &&
         find(library, "cublasLtMatmulPreferenceCreate", f.preference_create) &&
         find(library, "cublasLtMatmulPreferenceDestroy", f.preference_destroy) &&
         find(library, "cublasLtMatmulPreferenceSetAttribute", f.preference_set) &&
         find(library, "cublasLtMatmulAlgoGetHeuristic", f.heuristic);
}

/// One product's descriptions. cuBLAS counts columns first: it sees y^T [out x rows] =
/// W [in x out]^T x^T [in x rows].
class Descriptions {
 public:
  Descriptions(const Functions& f, const Gemm& product, std::uint64_t rows) : f_(f) {
    const auto in = static_cast<std::uint64_t>(product.in);
    const auto out = static_cast<std::uint64_t>(product.out);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    status = f_.desc_create(&operation, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F);
    then([&] {
      return f_.desc_set(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    });
    then([&] { return f_.layout_create(&weight, CUDA_R_32F, in, out, product_int(in)); });
    then([&] { return f_.layout_create(&x, CUDA_R_32F, in, rows, product_int(product.x_stride)); });
    then(
        [&] { return f_.layout_create(&y, CUDA_R_32F, out, rows, product_int(product.y_stride)); });
  }
  ~Descriptions() {
    if (y != nullptr) f_.layout_destroy(y);
    if (x != nullptr) f_.layout_destroy(x);
    if (weight != nullptr) f_.layout_destroy(weight);
    if (operation != nullptr) f_.desc_destroy(operation);
  }
  Descriptions(const Descriptions&) = delete;
  Descriptions& operator=(const Descriptions&) = delete;

  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t weight = nullptr;
  cublasLtMatrixLayout_t x = nullptr;
  cublasLtMatrixLayout_t y = nullptr;

 private:
  static std::int64_t product_int(std::uint64_t n) { return static_cast<std::int64_t>(n); }
  template <class F>
  void then(const F& call) {
    if (status == CUBLAS_STATUS_SUCCESS) status = call();
  }

  const Functions& f_;
};

DeviceError error_of(const char* call, cublasStatus_t status) {
  return {call, static_cast<int>(status), "cublasStatus_t",
          "look the code up in cuBLAS's documentation; without --fast-prefill cuBLAS isn't used",
          status == CUBLAS_STATUS_EXECUTION_FAILED};
}

class LoadedCublas final : public CublasGemm {
 public:
  LoadedCublas(Library library, const Functions& functions, cublasLtHandle_t handle)
      : library_(std::move(library)), f_(functions), handle_(handle) {}
  ~LoadedCublas() override { f_.destroy(handle_); }
  LoadedCublas(const LoadedCublas&) = delete;
  LoadedCublas& operator=(const LoadedCublas&) = delete;

  DeviceError run(const Gemm& product, void* workspace, cudaStream_t stream) override {
    cublasLtMatmulAlgo_t algorithm;
    if (const DeviceError error = algorithm_for(product, algorithm)) return error;
    const Descriptions d(f_, product, product.rows);
    if (d.status != CUBLAS_STATUS_SUCCESS) return error_of("cublasLtMatrixLayoutCreate", d.status);
    const float one = 1.0F;
    const float zero = 0.0F;
    const cublasStatus_t status =
        f_.matmul(handle_, d.operation, &one, product.weight, d.weight, product.x, d.x, &zero,
                  product.y, d.y, product.y, d.y, &algorithm, workspace, kWorkspaceBytes, stream);
    if (status != CUBLAS_STATUS_SUCCESS) return error_of("cublasLtMatmul", status);
    return {};
  }

 private:
  using Shape = std::array<std::size_t, 4>;

  DeviceError algorithm_for(const Gemm& product, cublasLtMatmulAlgo_t& algorithm) {
    const Shape shape{product.in, product.out, product.x_stride, product.y_stride};
    if (const auto found = algorithms_.find(shape); found != algorithms_.end()) {
      algorithm = found->second;
      return {};
    }
    const Descriptions d(f_, product, kTypicalRows);
    cublasLtMatmulPreference_t preference = nullptr;
    cublasStatus_t status = d.status;
    if (status == CUBLAS_STATUS_SUCCESS) status = f_.preference_create(&preference);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      if (status == CUBLAS_STATUS_SUCCESS)
        status = f_.preference_set(preference, what, &value, sizeof value);
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
    // Rows and pieces of matrices begin at whole 16 bytes, no more.
    for (const auto alignment :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(alignment, std::uint32_t{16});
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    if (status == CUBLAS_STATUS_SUCCESS)
      status =
          f_.heuristic(handle_, d.operation, d.weight, d.x, d.y, d.y, preference, 1, &best, &found);
    if (preference != nullptr) f_.preference_destroy(preference);
    if (status == CUBLAS_STATUS_SUCCESS && found == 0) status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (status != CUBLAS_STATUS_SUCCESS) return error_of("cublasLtMatmulAlgoGetHeuristic", status);
    algorithm = best.algo;
    algorithms_.emplace(shape, algorithm);
    return {};
  }

  Library library_;
  Functions f_;
  cublasLtHandle_t handle_;
  std::map<Shape, cublasLtMatmulAlgo_t> algorithms_;
};

}  // namespace

std::unique_ptr<CublasGemm> CublasGemm::load(std::string& why_not) {
  Library library = open_library(why_not);
  if (library == nullptr) return nullptr;
  Functions functions;
  if (!find_all(library.get(), functions)) {
    why_not =
        "the cublasLt library lacks functions that this build needs; install the version "
        "that it was built with";
    return nullptr;
  }
  cublasLtHandle_t handle = nullptr;
  const cublasStatus_t status = functions.create(&handle);
  if (status != CUBLAS_STATUS_SUCCESS) {
    why_not = "cublasLtCreate failed with code " + std::to_string(static_cast<int>(status));
    return nullptr;
  }
  return std::make_unique<LoadedCublas>(std::move(library), functions, handle);
}

#else

std::unique_ptr<CublasGemm> CublasGemm::load(std::string& why_not) {
  why_not = "this build was made without the headers of cuBLAS";
  return nullptr;
}

#endif

}  // namespace sluice::kernels::cuda
