// Where the actors write their numbers and everybody reads them.
//
// Reading copies a snapshot under a short lock: it never waits for an actor, so metrics answer
// while a long step runs.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "actors/stream_service.hpp"

namespace sluice {

/// Safe to use from any thread.
class StatsBoard {
 public:
  EngineStats read() const;

  // -- written by the scheduler and the KV manager ------------------------------------------

  void scheduler(const SchedulerStats& stats);
  void kv(const KvStats& stats);
  void step(std::chrono::nanoseconds duration);

  // -- written by sessions --------------------------------------------------------------------

  void session_opened();
  void session_closed();
  void first_token(std::chrono::nanoseconds since_acceptance);
  void stream_finished(const std::string& outcome);  ///< name of a stop rule, or "error"

  // -- written by the supervisor ----------------------------------------------------------------

  void scheduler_lost();  ///< nothing waits or runs there any more; its counters stay
  void executor_restarted();
  void ready(bool is_ready);

 private:
  mutable std::mutex mutex_;
  EngineStats stats_;
  SchedulerStats earlier_;  ///< counters of schedulers that were replaced
};

}  // namespace sluice
