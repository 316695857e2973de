// Remembers what the last steps held, while somebody looks.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "actors/engine_view.hpp"
#include "engine/backend/backend.hpp"

namespace sluice {

/// Records a number of steps each time it is armed, and costs a comparison a step otherwise.
class StepRecorder {
 public:
  static constexpr std::size_t kKept = 128;       ///< steps
  static constexpr std::size_t kArmedFor = 4096;  ///< steps until another look has to come

  void arm() { left_ = kArmedFor; }

  void begin(const StepBatch& batch) {
    if (left_ == 0) return;
    if (--left_ == 0) {
      steps_.clear();
      return;
    }
    if (steps_.size() == kKept) steps_.pop_front();
    StepView& step = steps_.emplace_back();
    step.number = batch.number;
    step.slices.reserve(batch.slices.size());
    for (const StepSlice& slice : batch.slices) {
      step.slices.push_back(
          {slice.sequence, static_cast<Position>(slice.tokens.size()), slice.sample});
    }
  }

  void end(const StepResult& result) {
    if (!steps_.empty() && steps_.back().number == result.number) {
      steps_.back().duration = result.duration;
    }
  }

  /// Those that have ended, oldest first.
  std::vector<StepView> steps() const {
    std::vector<StepView> ended(steps_.begin(), steps_.end());
    if (!ended.empty() && ended.back().duration.count() == 0) ended.pop_back();
    return ended;
  }

 private:
  std::size_t left_ = 0;
  std::deque<StepView> steps_;
};

}  // namespace sluice
