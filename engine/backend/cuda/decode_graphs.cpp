#include "engine/backend/cuda/decode_graphs.hpp"

namespace sluice {
namespace {

/// Graphs take memory of the device; more sizes than this make room by starting anew.
constexpr std::size_t kMostGraphs = 96;

}  // namespace

void DecodeGraphs::clear() {
  for (auto& [bucket, entry] : entries_)
    if (entry.graph != nullptr) queue_.api().destroy_graph(entry.graph);
  entries_.clear();
}

DecodeGraphs::Entry& DecodeGraphs::entry_of(const StepBucket& bucket) {
  if (entries_.size() >= kMostGraphs && !entries_.contains(bucket)) clear();
  return entries_[bucket];
}

}  // namespace sluice
