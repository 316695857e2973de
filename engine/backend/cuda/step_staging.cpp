#include "engine/backend/cuda/step_staging.hpp"

#include <algorithm>

namespace sluice {

StepStaging::StepStaging(DeviceQueue& queue, std::size_t bytes)
    : queue_(queue), pinned_(queue, bytes, "a step"), device_(queue, bytes, "a step") {}

void StepStaging::begin(std::size_t bytes) {
  used_ = 0;
  if (bytes <= device_.bytes()) return;
  const std::size_t wanted = std::max(bytes, 2 * device_.bytes());
  PinnedBuffer pinned(queue_, wanted, "a step");
  device_ = DeviceBuffer(queue_, wanted, "a step");
  pinned_ = std::move(pinned);
  ++generation_;
}

}  // namespace sluice
