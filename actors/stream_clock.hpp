// Measures one stream for the histograms: its wait, its first token, the gaps between tokens, its
// whole life.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "actors/stats_board.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/stream/events.hpp"

namespace sluice {

class StreamClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  StreamClock(std::shared_ptr<StatsBoard> board, TimePoint accepted)
      : board_(std::move(board)), accepted_(accepted) {}

  /// Tokens that arrive together share the time since the one before them: they were drawn in
  /// steps of their own, and only heard of late.
  void on_publications(std::span<const Publication> publications, TimePoint now);
  /// The gap to the next token says nothing: somebody paused the stream, or it starts anew.
  void skip_gap() { last_token_.reset(); }
  /// A terminal event.
  void on_end(const Event& event, TimePoint now);

 private:
  std::shared_ptr<StatsBoard> board_;
  TimePoint accepted_;
  bool left_queue_ = false;
  bool first_token_seen_ = false;
  std::optional<TimePoint> last_token_;
};

}  // namespace sluice
