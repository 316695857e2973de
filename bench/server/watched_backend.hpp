// Backends for measuring what lies around them: one that measures another's steps, and one that
// takes no time at all.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/backend/backend.hpp"

namespace sluice::bench {

/// What the steps of a backend took.
struct StepTimes {
  double step_seconds = 0;
  /// Between the end of a step and the start of the next, over pairs that both draw tokens and
  /// have as many slices: what the engine adds to a step.
  double between_seconds = 0;
  double paired_step_seconds = 0;  ///< of the steps behind these gaps
  std::uint64_t pairs = 0;
  std::uint64_t steps = 0;
  double cpu_seconds = 0;  ///< of all threads of the backend, while they computed or spun
};

/// Shared by the backend, which the engine owns, and the one who wants to know.
class StepWatch {
 public:
  void begin();
  void end(const StepBatch& batch);
  void add_workers(std::vector<int> thread_ids);
  void reset();
  StepTimes times() const;

 private:
  using Clock = std::chrono::steady_clock;

  mutable std::mutex mutex_;
  StepTimes times_;
  std::vector<int> workers_;   ///< threads that the backend started
  double workers_before_ = 0;  ///< their processor time at reset()
  double executor_cpu_ = 0;    ///< of the calling thread, in steps
  double cpu_at_begin_ = 0;
  Clock::time_point began_{};
  Clock::time_point ended_{};
  std::size_t slices_before_ = 0;
};

/// Makes a backend whose steps `watch` sees.
std::unique_ptr<Backend> make_watched_backend(const std::function<std::unique_ptr<Backend>()>& make,
                                              std::shared_ptr<StepWatch> watch);

/// Draws `token` wherever a token is asked for, at once.
std::unique_ptr<Backend> make_null_backend(TokenId token);

}  // namespace sluice::bench
