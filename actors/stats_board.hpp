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
  std::vector<DeviceUsage> devices() const;  ///< as the backend's drivers say now

  // -- written by the scheduler and the KV manager ------------------------------------------

  void scheduler(const SchedulerStats& stats);
  void kv(const KvStats& stats);
  void step(std::chrono::nanoseconds duration, Position tokens, std::size_t sequences);

  // -- written by sessions --------------------------------------------------------------------

  void session_opened();
  void session_closed();
  void queue_left(std::chrono::nanoseconds since_acceptance);
  void first_token(std::chrono::nanoseconds since_acceptance);
  /// `tokens` further ones, together so long after the one before them.
  void further_tokens(std::chrono::nanoseconds duration, std::size_t tokens);
  void stream_ended(std::chrono::nanoseconds since_acceptance);
  void stream_used(const Usage& usage);
  void stream_finished(const std::string& outcome);  ///< name of a stop rule, or "error"
  void stream_failed(const std::string& code);       ///< besides: why it was an error

  // -- written by the supervisor ----------------------------------------------------------------

  /// What a new backend has taken, and how to ask after its devices.
  void backend(const BackendMemory& memory, DeviceProbe device_probe);
  void scheduler_lost();  ///< nothing waits or runs there any more; its counters stay
  void executor_restarted();
  void ready(bool is_ready);

 private:
  mutable std::mutex mutex_;
  EngineStats stats_;
  DeviceProbe device_probe_;
  SchedulerStats earlier_;  ///< counters of schedulers that were replaced
};

}  // namespace sluice
