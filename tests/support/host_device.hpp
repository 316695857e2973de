// A CUDA device that is none: its memory is main memory, its kernels are run on the CPU by the
// shim (tests/cuda_shim). It keeps the rules of the real one, so that code which breaks them fails:
//
// - Deferred, work waits in its stream until somebody waits for it, and then runs as late as the
//   order of streams and events allows. What was not ordered by an event comes too late.
// - A graph holds what was recorded, with its arguments of that time, and does it at each launch.
// - Calls can be made to fail; after a sticky failure all do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/device_api.hpp"
#include "tests/support/cuda_under_test.hpp"

namespace sluice::test {

struct HostDeviceOptions {
  bool deferred = false;
  std::size_t memory_bytes = std::size_t{1} << 30;
};

class HostDevice final : public kernels::cuda::DeviceApi {
 public:
  using Stream = kernels::cuda::Stream;
  using Event = kernels::cuda::Event;
  using Graph = kernels::cuda::Graph;
  using DeviceError = kernels::cuda::DeviceError;

  /// `injections` is shared with the test, which adds to it; may be null.
  explicit HostDevice(HostDeviceOptions options = {},
                      std::shared_ptr<std::vector<Injection>> injections = nullptr);
  ~HostDevice() override;

  const kernels::cuda::DeviceProperties& properties() const override { return properties_; }
  DeviceError use_on_this_thread() override { return trouble("cudaSetDevice"); }
  DeviceError free_memory(std::size_t& bytes) override;
  DeviceError allocate(void*& memory, std::size_t bytes, Stream stream) override;
  void release(void* memory, Stream stream) override;
  DeviceError allocate_pinned(void*& memory, std::size_t bytes) override;
  void release_pinned(void* memory) override;
  DeviceError copy_to_device(void* to, const void* from, std::size_t bytes, Stream stream) override;
  DeviceError copy_to_host(void* to, const void* from, std::size_t bytes, Stream stream) override;
  DeviceError fill_zero(void* memory, std::size_t bytes, Stream stream) override;
  DeviceError create_stream(Stream& stream) override;
  void destroy_stream(Stream stream) override;
  DeviceError create_event(Event& event) override;
  void destroy_event(Event event) override;
  DeviceError record(Event event, Stream stream) override;
  DeviceError wait(Stream stream, Event event) override;
  DeviceError query(Event event, bool& done) override;
  DeviceError synchronize(Event event) override;
  DeviceError synchronize_stream(Stream stream) override;
  DeviceError begin_capture(Stream stream) override;
  DeviceError end_capture(Stream stream, Graph& graph) override;
  void destroy_graph(Graph graph) override;
  DeviceError launch_graph(Graph graph, Stream stream) override;
  std::string why_no_gemm() const override { return {}; }
  DeviceError gemm(const kernels::cuda::Gemm& product, Stream stream) override;
  DeviceError launch(const kernels::cuda::Launch& kernel, Stream stream) override;

 private:
  using Work = std::function<void()>;
  struct Queue {
    std::deque<Work> work;
    std::vector<Work> recording;
    bool capturing = false;
  };
  struct Mark {
    Queue* queue = nullptr;      ///< where it was recorded last
    std::uint64_t recorded = 0;  ///< how often
    std::uint64_t reached = 0;   ///< the record that has been done
  };
  struct Recorded {
    std::vector<Work> work;
  };

  static Queue& queue_of(Stream stream) { return *reinterpret_cast<Queue*>(stream); }
  static Mark& mark_of(Event event) { return *reinterpret_cast<Mark*>(event); }
  /// The injected failure of a call, if it is its turn; after a sticky one always that.
  DeviceError trouble(std::string_view call);
  /// The same, or what work failed with since it was enqueued.
  DeviceError trouble_of_work(std::string_view call);
  DeviceError enqueue(Stream stream, Work work);
  void run_until(Mark& mark, std::uint64_t record);
  void run_all(Queue& queue);
  void run_one(Queue& queue);

  HostDeviceOptions options_;
  std::shared_ptr<std::vector<Injection>> injections_;
  kernels::cuda::DeviceProperties properties_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<std::unique_ptr<Mark>> marks_;
  std::map<void*, std::size_t> memory_;  ///< of the device
  std::map<void*, std::size_t> pinned_;
  std::size_t taken_ = 0;
  DeviceError sticky_;
  DeviceError of_work_;
};

}  // namespace sluice::test
