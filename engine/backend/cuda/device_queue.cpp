#include "engine/backend/cuda/device_queue.hpp"

#include "engine/base/error.hpp"

namespace sluice {
namespace {

constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation

}  // namespace

void require(const kernels::cuda::DeviceError& error, const std::string& doing) {
  if (!error) return;
  throw Error(error.code == kOutOfMemory ? ErrorCode::kDoesNotFit : ErrorCode::kInternal,
              doing + ": " + error.sentence());
}

DeviceMark::DeviceMark(kernels::cuda::DeviceApi& api) : api_(api) {
  require(api_.create_event(event_), "preparing the CUDA device");
}

DeviceMark::~DeviceMark() {
  api_.destroy_event(event_);
}

DeviceQueue::DeviceQueue(kernels::cuda::DeviceApi& api) : api_(api) {
  require(api_.create_stream(stream_), "preparing the CUDA device");
}

DeviceQueue::~DeviceQueue() {
  api_.destroy_stream(stream_);
}

}  // namespace sluice
