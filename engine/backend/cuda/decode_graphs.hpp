// Recorded decode steps: one graph for each bucket, made the second time that the bucket comes.
// (The first time its kernels are launched one by one, which also loads them.)
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "engine/backend/cuda/device_queue.hpp"
#include "engine/backend/cuda/step_inputs.hpp"

namespace sluice {

class DecodeGraphs {
 public:
  explicit DecodeGraphs(DeviceQueue& queue) : queue_(queue) {}
  ~DecodeGraphs() { clear(); }
  DecodeGraphs(const DecodeGraphs&) = delete;
  DecodeGraphs& operator=(const DecodeGraphs&) = delete;

  /// Drops everything: addresses have changed. Nothing may be under way.
  void clear();

  /// Runs `enqueue()`, which puts a step's kernels into the queue: as a graph where there is one or
  /// it is time to make one, else directly. The kernels must be the same, with the same arguments,
  /// for the same bucket. True when a graph was launched.
  template <class Enqueue>
  bool run(const StepBucket& bucket, const Enqueue& enqueue) {
    Entry& entry = entry_of(bucket);
    if (entry.graph == nullptr && entry.uses++ == 0) {
      enqueue();
      return false;
    }
    if (entry.graph == nullptr) record(entry, enqueue);
    if (queue_.failed()) return false;
    queue_.note(queue_.api().launch_graph(entry.graph, queue_.stream()));
    return true;
  }

  std::uint64_t recorded() const { return recorded_; }

 private:
  struct Entry {
    kernels::cuda::Graph graph = nullptr;
    std::uint64_t uses = 0;
  };
  Entry& entry_of(const StepBucket& bucket);

  template <class Enqueue>
  void record(Entry& entry, const Enqueue& enqueue) {
    if (queue_.failed()) return;
    queue_.note(queue_.api().begin_capture(queue_.stream()));
    if (queue_.failed()) return;
    enqueue();
    // Always ended, so that the stream is usable whatever happened.
    queue_.note(queue_.api().end_capture(queue_.stream(), entry.graph));
    ++recorded_;
  }

  DeviceQueue& queue_;
  std::map<StepBucket, Entry> entries_;
  std::uint64_t recorded_ = 0;
};

}  // namespace sluice
