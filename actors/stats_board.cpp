#include "actors/stats_board.hpp"

namespace sluice {

namespace {

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

EngineStats StatsBoard::read() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  // Counters go on over a restart; a metric that falls back looks like a new process.
  stats.scheduler.steps += earlier_.steps;
  stats.scheduler.prompt_tokens += earlier_.prompt_tokens;
  stats.scheduler.generated_tokens += earlier_.generated_tokens;
  stats.scheduler.preemptions += earlier_.preemptions;
  return stats;
}

void StatsBoard::scheduler(const SchedulerStats& stats) {
  const std::lock_guard lock(mutex_);
  stats_.scheduler = stats;
}

void StatsBoard::kv(const KvStats& stats) {
  const std::lock_guard lock(mutex_);
  stats_.kv = stats;
}

void StatsBoard::step(std::chrono::nanoseconds duration) {
  const std::lock_guard lock(mutex_);
  stats_.step_seconds_sum += seconds(duration);
}

void StatsBoard::session_opened() {
  const std::lock_guard lock(mutex_);
  ++stats_.sessions;
  ++stats_.streams_started;
}

void StatsBoard::session_closed() {
  const std::lock_guard lock(mutex_);
  --stats_.sessions;
}

void StatsBoard::first_token(std::chrono::nanoseconds since_acceptance) {
  const std::lock_guard lock(mutex_);
  stats_.ttft_seconds_sum += seconds(since_acceptance);
  ++stats_.ttft_count;
}

void StatsBoard::stream_finished(const std::string& outcome) {
  const std::lock_guard lock(mutex_);
  ++stats_.streams_finished[outcome];
}

void StatsBoard::scheduler_lost() {
  const std::lock_guard lock(mutex_);
  const SchedulerStats& last = stats_.scheduler;
  earlier_.steps += last.steps;
  earlier_.prompt_tokens += last.prompt_tokens;
  earlier_.generated_tokens += last.generated_tokens;
  earlier_.preemptions += last.preemptions;
  stats_.scheduler = {};
}

void StatsBoard::executor_restarted() {
  const std::lock_guard lock(mutex_);
  ++stats_.executor_restarts;
}

void StatsBoard::ready(bool is_ready) {
  const std::lock_guard lock(mutex_);
  stats_.ready = is_ready;
}

}  // namespace sluice
