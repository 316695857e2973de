#include "tests/support/host_device.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "tests/cuda_shim/cuda_shim.hpp"

namespace sluice::test {
namespace {

namespace cuda = kernels::cuda;

/// DeviceError holds texts that live for ever.
const char* kept(std::string_view text) {
  static std::set<std::string, std::less<>> texts;
  return texts.emplace(text).first->c_str();
}

cuda::DeviceError error_of(std::string_view call, int code) {
  return {kept(call), code, "injected", cuda::cuda_hint(code), cuda::cuda_error_is_sticky(code)};
}

}  // namespace

HostDevice::HostDevice(HostDeviceOptions options,
                       std::shared_ptr<std::vector<Injection>> injections)
    : options_(options), injections_(std::move(injections)) {
  properties_.name = "host shim";
  properties_.compute_major = 9;
  properties_.multiprocessors = 1;
  properties_.total_bytes = options.memory_bytes;
}

HostDevice::~HostDevice() {
  for (const auto& [memory, bytes] : memory_) cuda_shim::release(memory);
  for (const auto& [memory, bytes] : pinned_) cuda_shim::release(memory);
}

cuda::DeviceError HostDevice::trouble(std::string_view call) {
  if (sticky_) return sticky_;
  if (injections_ == nullptr) return {};
  for (auto it = injections_->begin(); it != injections_->end(); ++it) {
    if (it->call != call || it->skip-- > 0) continue;
    const cuda::DeviceError error = error_of(call, it->code);
    injections_->erase(it);
    if (error.lost) sticky_ = error;
    return error;
  }
  return {};
}

cuda::DeviceError HostDevice::trouble_of_work(std::string_view call) {
  if (of_work_) return std::exchange(of_work_, {});
  return trouble(call);
}

// -- memory ---------------------------------------------------------------------------------------

cuda::DeviceError HostDevice::free_memory(std::size_t& bytes) {
  bytes = options_.memory_bytes - taken_;
  return trouble("cudaMemGetInfo");
}

cuda::DeviceError HostDevice::allocate(void*& memory, std::size_t bytes, Stream) {
  if (const DeviceError error = trouble("cudaMallocFromPoolAsync")) return error;
  if (bytes > options_.memory_bytes - taken_) return error_of("cudaMallocFromPoolAsync", 2);
  memory = cuda_shim::allocate(bytes);
  memory_.emplace(memory, bytes);
  taken_ += bytes;
  return {};
}

void HostDevice::release(void* memory, Stream stream) {
  const Work work = [this, memory] {
    const auto found = memory_.find(memory);
    taken_ -= found->second;
    memory_.erase(found);
    cuda_shim::release(memory);
  };
  // Also after a failure.
  if (options_.deferred) {
    queue_of(stream).work.push_back(work);
  } else {
    work();
  }
}

cuda::DeviceError HostDevice::allocate_pinned(void*& memory, std::size_t bytes) {
  if (const DeviceError error = trouble("cudaHostAlloc")) return error;
  memory = cuda_shim::allocate(bytes);
  pinned_.emplace(memory, bytes);
  return {};
}

void HostDevice::release_pinned(void* memory) {
  // The real one waits for all work.
  for (const auto& queue : queues_) run_all(*queue);
  pinned_.erase(memory);
  cuda_shim::release(memory);
}

cuda::DeviceError HostDevice::copy_to_device(void* to, const void* from, std::size_t bytes,
                                             Stream stream) {
  if (const DeviceError error = trouble("cudaMemcpyAsync")) return error;
  return enqueue(stream, [=] { std::memcpy(to, from, bytes); });
}

cuda::DeviceError HostDevice::copy_to_host(void* to, const void* from, std::size_t bytes,
                                           Stream stream) {
  return copy_to_device(to, from, bytes, stream);
}

cuda::DeviceError HostDevice::fill_zero(void* memory, std::size_t bytes, Stream stream) {
  if (const DeviceError error = trouble("cudaMemsetAsync")) return error;
  return enqueue(stream, [=] { std::memset(memory, 0, bytes); });
}

// -- order ----------------------------------------------------------------------------------------

cuda::DeviceError HostDevice::create_stream(Stream& stream) {
  if (const DeviceError error = trouble("cudaStreamCreateWithFlags")) return error;
  queues_.push_back(std::make_unique<Queue>());
  stream = reinterpret_cast<Stream>(queues_.back().get());
  return {};
}

void HostDevice::destroy_stream(Stream stream) {
  run_all(queue_of(stream));
  std::erase_if(queues_, [&](const auto& queue) { return queue.get() == &queue_of(stream); });
}

cuda::DeviceError HostDevice::create_event(Event& event) {
  if (const DeviceError error = trouble("cudaEventCreateWithFlags")) return error;
  marks_.push_back(std::make_unique<Mark>());
  event = reinterpret_cast<Event>(marks_.back().get());
  return {};
}

void HostDevice::destroy_event(Event event) {
  Mark& mark = mark_of(event);
  if (mark.queue != nullptr) run_until(mark, mark.recorded);
  std::erase_if(marks_, [&](const auto& one) { return one.get() == &mark; });
}

cuda::DeviceError HostDevice::record(Event event, Stream stream) {
  if (const DeviceError error = trouble("cudaEventRecord")) return error;
  Mark& mark = mark_of(event);
  mark.queue = &queue_of(stream);
  const std::uint64_t record = ++mark.recorded;
  return enqueue(stream, [&mark, record] { mark.reached = std::max(mark.reached, record); });
}

cuda::DeviceError HostDevice::wait(Stream stream, Event event) {
  if (const DeviceError error = trouble("cudaStreamWaitEvent")) return error;
  Mark& mark = mark_of(event);
  return enqueue(stream, [this, &mark, record = mark.recorded] { run_until(mark, record); });
}

cuda::DeviceError HostDevice::query(Event event, bool& done) {
  Mark& mark = mark_of(event);
  // A look takes time, in which some work gets done.
  for (int i = 0; i < 8 && mark.reached < mark.recorded; ++i) run_one(*mark.queue);
  done = mark.reached == mark.recorded;
  return trouble_of_work("cudaEventQuery");
}

cuda::DeviceError HostDevice::synchronize(Event event) {
  Mark& mark = mark_of(event);
  run_until(mark, mark.recorded);
  return trouble_of_work("cudaEventSynchronize");
}

cuda::DeviceError HostDevice::synchronize_stream(Stream stream) {
  run_all(queue_of(stream));
  return trouble_of_work("cudaStreamSynchronize");
}

cuda::DeviceError HostDevice::enqueue(Stream stream, Work work) {
  Queue& queue = queue_of(stream);
  if (queue.capturing) {
    queue.recording.push_back(std::move(work));
  } else if (options_.deferred) {
    queue.work.push_back(std::move(work));
  } else {
    work();
    if (of_work_) return std::exchange(of_work_, {});
  }
  return {};
}

void HostDevice::run_one(Queue& queue) {
  if (queue.work.empty()) return;
  const Work work = std::move(queue.work.front());
  queue.work.pop_front();
  work();
}

void HostDevice::run_all(Queue& queue) {
  while (!queue.work.empty()) run_one(queue);
}

void HostDevice::run_until(Mark& mark, std::uint64_t record) {
  while (mark.reached < record && !mark.queue->work.empty()) run_one(*mark.queue);
}

// -- graphs ---------------------------------------------------------------------------------------

cuda::DeviceError HostDevice::begin_capture(Stream stream) {
  if (const DeviceError error = trouble("cudaStreamBeginCapture")) return error;
  queue_of(stream).capturing = true;
  queue_of(stream).recording.clear();
  return {};
}

cuda::DeviceError HostDevice::end_capture(Stream stream, Graph& graph) {
  Queue& queue = queue_of(stream);
  queue.capturing = false;
  if (const DeviceError error = trouble("cudaGraphInstantiate")) return error;
  graph = reinterpret_cast<Graph>(new Recorded{std::move(queue.recording)});
  queue.recording.clear();
  return {};
}

void HostDevice::destroy_graph(Graph graph) {
  for (const auto& queue : queues_) run_all(*queue);
  delete reinterpret_cast<Recorded*>(graph);
}

cuda::DeviceError HostDevice::launch_graph(Graph graph, Stream stream) {
  if (const DeviceError error = trouble("cudaGraphLaunch")) return error;
  return enqueue(stream, [recorded = reinterpret_cast<Recorded*>(graph)] {
    for (const Work& work : recorded->work) work();
  });
}

// -- kernels --------------------------------------------------------------------------------------

cuda::DeviceError HostDevice::gemm(const cuda::Gemm& p, Stream stream) {
  if (const DeviceError error = trouble("cublasLtMatmul")) return error;
  return enqueue(stream, [p] {
    for (std::size_t row = 0; row < p.rows; ++row)
      for (std::size_t out = 0; out < p.out; ++out) {
        float sum = 0.0F;
        for (std::size_t i = 0; i < p.in; ++i)
          sum += p.x[row * p.x_stride + i] * p.weight[out * p.in + i];
        p.y[row * p.y_stride + out] = sum;
      }
  });
}

cuda::DeviceError HostDevice::launch(const cuda::Launch& kernel, Stream stream) {
  if (const DeviceError error = trouble("a kernel launch")) return error;
  return enqueue(stream, [this, kernel, stream] {
    if (of_work_ || sticky_) return;
    const cuda::LaunchStatus status = kernel(stream);
    if (!status.ok()) {
      of_work_ = {status.kernel, status.code, "LaunchStatus", cuda::cuda_hint(status.code), false};
    } else if (const DeviceError error = trouble(status.kernel)) {
      of_work_ = error;  // as if it had failed while running
    }
  });
}

}  // namespace sluice::test
