#include "actors/stats_board.hpp"

#include <utility>

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

std::vector<DeviceUsage> StatsBoard::devices() const {
  DeviceProbe probe;
  {
    const std::lock_guard lock(mutex_);
    probe = device_probe_;
  }
  return probe ? probe() : std::vector<DeviceUsage>();
}

void StatsBoard::scheduler(const SchedulerStats& stats) {
  const std::lock_guard lock(mutex_);
  stats_.scheduler = stats;
}

void StatsBoard::kv(const KvStats& stats) {
  const std::lock_guard lock(mutex_);
  stats_.kv = stats;
}

void StatsBoard::step(std::chrono::nanoseconds duration, Position tokens, std::size_t sequences) {
  const std::lock_guard lock(mutex_);
  stats_.histograms.step_seconds.observe(seconds(duration));
  stats_.histograms.step_tokens.observe(static_cast<double>(tokens));
  stats_.histograms.step_sequences.observe(static_cast<double>(sequences));
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

void StatsBoard::queue_left(std::chrono::nanoseconds since_acceptance) {
  const std::lock_guard lock(mutex_);
  stats_.histograms.queue_seconds.observe(seconds(since_acceptance));
}

void StatsBoard::first_token(std::chrono::nanoseconds since_acceptance) {
  const std::lock_guard lock(mutex_);
  stats_.histograms.ttft_seconds.observe(seconds(since_acceptance));
}

void StatsBoard::further_tokens(std::chrono::nanoseconds duration, std::size_t tokens) {
  if (tokens == 0) return;
  const std::lock_guard lock(mutex_);
  stats_.histograms.itl_seconds.observe(seconds(duration) / static_cast<double>(tokens), tokens);
}

void StatsBoard::stream_ended(std::chrono::nanoseconds since_acceptance) {
  const std::lock_guard lock(mutex_);
  stats_.histograms.stream_seconds.observe(seconds(since_acceptance));
}

void StatsBoard::stream_used(const Usage& usage) {
  const std::lock_guard lock(mutex_);
  stats_.histograms.prompt_tokens.observe(static_cast<double>(usage.prompt_tokens));
  stats_.histograms.answer_tokens.observe(static_cast<double>(usage.completion_tokens));
}

void StatsBoard::stream_finished(const std::string& outcome) {
  const std::lock_guard lock(mutex_);
  ++stats_.streams_finished[outcome];
}

void StatsBoard::stream_failed(const std::string& code) {
  const std::lock_guard lock(mutex_);
  ++stats_.stream_errors[code];
}

void StatsBoard::backend(const BackendMemory& memory, DeviceProbe device_probe) {
  const std::lock_guard lock(mutex_);
  stats_.memory = memory;
  device_probe_ = std::move(device_probe);
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
