// The real device. A host source: it calls the runtime, but holds no kernel.
#include "kernels/cuda/cuda_device.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "kernels/cuda/cublas_gemm.hpp"

namespace sluice::kernels::cuda {
namespace {

int attribute(cudaDeviceAttr what, int index) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, what, index) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return value;
}

DeviceProperties read_properties(int index, const cudaDeviceProp& p) {
  DeviceProperties result;
  result.index = index;
  result.name = p.name;
  result.compute_major = p.major;
  result.compute_minor = p.minor;
  result.multiprocessors = p.multiProcessorCount;
  result.total_bytes = p.totalGlobalMem;
  // Two transfers a clock (kHz) over the width (bits).
  result.bytes_per_second = 2.0 * 1e3 * attribute(cudaDevAttrMemoryClockRate, index) *
                            attribute(cudaDevAttrGlobalMemoryBusWidth, index) / 8.0;
  // Each core a multiplication and an addition a clock (kHz).
  const int cores = p.major == 8 && p.minor == 0 ? 64 : 128;
  result.operations_per_second =
      2.0 * 1e3 * cores * p.multiProcessorCount * attribute(cudaDevAttrClockRate, index);
  return result;
}

DeviceError error_of(const char* call, cudaError_t code, bool lost) {
  const int number = static_cast<int>(code);
  return {call, number, cudaGetErrorName(code), cuda_hint(number), lost};
}

class RealDevice final : public DeviceApi {
 public:
  RealDevice(DeviceProperties properties, cudaMemPool_t pool)
      : properties_(std::move(properties)), pool_(pool) {
    gemm_ = CublasGemm::load(why_no_gemm_);
  }
  RealDevice(const RealDevice&) = delete;
  RealDevice& operator=(const RealDevice&) = delete;

  ~RealDevice() override {
    cudaSetDevice(properties_.index);
    gemm_.reset();
    if (workspace_ != nullptr) cudaFree(workspace_);
    cudaMemPoolDestroy(pool_);
    // After a sticky error nothing works before the device's state has been thrown away.
    if (lost_) cudaDeviceReset();
    cudaGetLastError();
  }

  const DeviceProperties& properties() const override { return properties_; }

  DeviceError use_on_this_thread() override {
    return checked("cudaSetDevice", cudaSetDevice(properties_.index));
  }

  DeviceError free_memory(std::size_t& bytes) override {
    std::size_t total = 0;
    return checked("cudaMemGetInfo", cudaMemGetInfo(&bytes, &total));
  }

  // -- memory ----------------------------------------------------------------------------------

  DeviceError allocate(void*& memory, std::size_t bytes, Stream stream) override {
    return checked("cudaMallocFromPoolAsync",
                   cudaMallocFromPoolAsync(&memory, bytes, pool_, stream));
  }

  void release(void* memory, Stream stream) override { note(cudaFreeAsync(memory, stream)); }

  DeviceError allocate_pinned(void*& memory, std::size_t bytes) override {
    return checked("cudaHostAlloc", cudaHostAlloc(&memory, bytes, cudaHostAllocDefault));
  }

  void release_pinned(void* memory) override { note(cudaFreeHost(memory)); }

  DeviceError copy_to_device(void* to, const void* from, std::size_t bytes,
                             Stream stream) override {
    return copy(to, from, bytes, cudaMemcpyHostToDevice, stream);
  }
  DeviceError copy_to_host(void* to, const void* from, std::size_t bytes, Stream stream) override {
    return copy(to, from, bytes, cudaMemcpyDeviceToHost, stream);
  }
  DeviceError fill_zero(void* memory, std::size_t bytes, Stream stream) override {
    return checked("cudaMemsetAsync", cudaMemsetAsync(memory, 0, bytes, stream));
  }

  // -- order -----------------------------------------------------------------------------------

  DeviceError create_stream(Stream& stream) override {
    return checked("cudaStreamCreateWithFlags",
                   cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  void destroy_stream(Stream stream) override { note(cudaStreamDestroy(stream)); }

  DeviceError create_event(Event& event) override {
    return checked("cudaEventCreateWithFlags",
                   cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  void destroy_event(Event event) override { note(cudaEventDestroy(event)); }

  DeviceError record(Event event, Stream stream) override {
    return checked("cudaEventRecord", cudaEventRecord(event, stream));
  }
  DeviceError wait(Stream stream, Event event) override {
    return checked("cudaStreamWaitEvent", cudaStreamWaitEvent(stream, event, 0));
  }
  DeviceError query(Event event, bool& done) override {
    const cudaError_t code = cudaEventQuery(event);
    done = code == cudaSuccess;
    if (code == cudaErrorNotReady) return {};
    return checked("cudaEventQuery", code);
  }
  DeviceError synchronize(Event event) override {
    return checked("cudaEventSynchronize", cudaEventSynchronize(event));
  }
  DeviceError synchronize_stream(Stream stream) override {
    return checked("cudaStreamSynchronize", cudaStreamSynchronize(stream));
  }

  // -- graphs ----------------------------------------------------------------------------------

  DeviceError begin_capture(Stream stream) override {
    return checked("cudaStreamBeginCapture",
                   cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  }
  DeviceError end_capture(Stream stream, Graph& graph) override {
    cudaGraph_t recorded = nullptr;
    const cudaError_t code = cudaStreamEndCapture(stream, &recorded);
    if (code != cudaSuccess) return checked("cudaStreamEndCapture", code);
    const DeviceError error =
        checked("cudaGraphInstantiate", cudaGraphInstantiate(&graph, recorded, 0));
    note(cudaGraphDestroy(recorded));
    return error;
  }
  void destroy_graph(Graph graph) override { note(cudaGraphExecDestroy(graph)); }
  DeviceError launch_graph(Graph graph, Stream stream) override {
    return checked("cudaGraphLaunch", cudaGraphLaunch(graph, stream));
  }

  // -- matrix products -------------------------------------------------------------------------

  std::string why_no_gemm() const override { return why_no_gemm_; }
  DeviceError gemm(const Gemm& product, Stream stream) override {
    if (gemm_ == nullptr) return {"cublasLtMatmul", -1, "not loaded", "cuBLAS is missing", false};
    if (workspace_ == nullptr) {
      const cudaError_t code = cudaMalloc(&workspace_, CublasGemm::kWorkspaceBytes);
      if (code != cudaSuccess) return checked("cudaMalloc", code);
    }
    return gemm_->run(product, workspace_, stream);
  }

  DeviceError launch(const Launch& kernel, Stream stream) override {
    const LaunchStatus status = kernel(stream);
    if (status.ok()) return {};
    if (status.code < 0)
      return {status.kernel, status.code, "no such shape", cuda_hint(status.code), false};
    return checked(status.kernel, static_cast<cudaError_t>(status.code));
  }

 private:
  /// What the runtime said, remembering whether the device is still usable.
  DeviceError checked(const char* call, cudaError_t code) {
    if (code == cudaSuccess) return {};
    note(code);
    return error_of(call, code, lost_);
  }
  void note(cudaError_t code) {
    if (code == cudaSuccess) return;
    if (cuda_error_is_sticky(static_cast<int>(code))) lost_ = true;
    cudaGetLastError();  // so that the next launch is not blamed for it
  }

  DeviceError copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                   Stream stream) {
    return checked("cudaMemcpyAsync", cudaMemcpyAsync(to, from, bytes, kind, stream));
  }

  DeviceProperties properties_;
  cudaMemPool_t pool_;
  std::unique_ptr<CublasGemm> gemm_;
  std::string why_no_gemm_;
  void* workspace_ = nullptr;
  bool lost_ = false;
};

std::string failure(const char* call, cudaError_t code) {
  cudaGetLastError();
  return error_of(call, code, false).sentence();
}

}  // namespace

std::unique_ptr<DeviceApi> open_cuda_device(int index, std::string& why_not) {
  if (const cudaError_t code = cudaSetDevice(index); code != cudaSuccess) {
    why_not = code == cudaErrorInsufficientDriver
                  ? "no CUDA driver on this machine, or one too old for this build"
                  : failure("cudaSetDevice", code);
    cudaGetLastError();
    return nullptr;
  }
  cudaDeviceProp properties{};
  if (const cudaError_t code = cudaGetDeviceProperties(&properties, index); code != cudaSuccess) {
    why_not = failure("cudaGetDeviceProperties", code);
    return nullptr;
  }
  cudaMemPoolProps wanted{};
  wanted.allocType = cudaMemAllocationTypePinned;
  wanted.location.type = cudaMemLocationTypeDevice;
  wanted.location.id = index;
  cudaMemPool_t pool = nullptr;
  if (const cudaError_t code = cudaMemPoolCreate(&pool, &wanted); code != cudaSuccess) {
    why_not = failure("cudaMemPoolCreate", code);
    return nullptr;
  }
  // What was taken stays: a step never waits for the driver.
  std::uint64_t keep_all = UINT64_MAX;
  cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all);
  return std::make_unique<RealDevice>(read_properties(index, properties), pool);
}

}  // namespace sluice::kernels::cuda
