#include "engine/backend/cuda/weight_upload.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/kernels.hpp"

namespace sluice {
namespace {

constexpr std::size_t kStageBytes = std::size_t{8} << 20;
const char* const kDoing = "uploading the weights";

}  // namespace

WeightUpload::WeightUpload(DeviceQueue& queue)
    : queue_(queue),
      stages_{Stage{PinnedBuffer(queue, kStageBytes, kDoing), DeviceMark(queue.api())},
              Stage{PinnedBuffer(queue, kStageBytes, kDoing), DeviceMark(queue.api())}} {}

WeightUpload::Stage& WeightUpload::next_stage() {
  Stage& stage = stages_[turn_++ % stages_.size()];
  if (stage.used) require(queue_.api().synchronize(stage.sent.event()), kDoing);
  stage.used = true;
  return stage;
}

void WeightUpload::copy(std::byte* to, std::span<const std::byte> from) {
  make(to, from.size(), 1, [&](std::byte* target, std::size_t first, std::size_t count) {
    std::memcpy(target, from.data() + first, count);
  });
}

void WeightUpload::make(std::byte* to, std::size_t count, std::size_t item_bytes,
                        const std::function<void(std::byte*, std::size_t, std::size_t)>& fill) {
  const std::size_t at_once = std::max<std::size_t>(kStageBytes / item_bytes, 1);
  for (std::size_t first = 0; first < count; first += at_once) {
    const std::size_t n = std::min(at_once, count - first);
    Stage& stage = next_stage();
    if (n * item_bytes > stage.memory.bytes())  // one very long row
      stage.memory = PinnedBuffer(queue_, n * item_bytes, kDoing);
    fill(stage.memory.data(), first, n);
    queue_.upload(to + first * item_bytes, stage.memory.data(), n * item_bytes);
    queue_.record(stage.sent);
    require(queue_.error(), kDoing);
  }
}

void WeightUpload::arrange(const kernels::cuda::Weights& weights) {
  // The memory is ours; Weights only promises not to write through it.
  queue_.launch([weights, data = const_cast<void*>(weights.data)](kernels::cuda::Stream stream) {
    return kernels::cuda::arrange_weights(data, weights.type, weights.rows, weights.cols, stream);
  });
  require(queue_.error(), kDoing);
}

void WeightUpload::finish() {
  queue_.synchronize();
  require(queue_.error(), kDoing);
}

}  // namespace sluice
