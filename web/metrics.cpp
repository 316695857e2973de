#include "web/metrics.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "web/stop_rule_list.hpp"

namespace sluice::web {
namespace {

class Exposition {
 public:
  template <class Number>
  void gauge(std::string_view name, std::string_view help, Number value) {
    header(name, help, "gauge");
    sample(name, value);
  }

  template <class Number>
  void counter(std::string_view name, std::string_view help, Number value) {
    header(name, help, "counter");
    sample(name, value);
  }

  void header(std::string_view name, std::string_view help, std::string_view type) {
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }

  template <class Number>
  void sample(std::string_view name, Number value) {
    text_ += fmt::format("{} {}\n", name, value);
  }

  template <class Number>
  void sample(std::string_view name, std::string_view label, std::string_view label_value,
              Number value) {
    text_ += fmt::format("{}{{{}=\"{}\"}} {}\n", name, label, escape(label_value), value);
  }

  std::string take() { return std::move(text_); }

 private:
  static std::string escape(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
      if (c == '\\' || c == '"') escaped += '\\';
      if (c == '\n') {
        escaped += "\\n";
      } else {
        escaped += c;
      }
    }
    return escaped;
  }

  std::string text_;
};

void write_kv(Exposition& out, const KvStats& kv) {
  out.gauge("sluice_kv_blocks_total", "KV blocks in the pool.", kv.total);
  out.gauge("sluice_kv_blocks_used", "KV blocks owned by at least one sequence.", kv.used);
  out.gauge("sluice_kv_blocks_cached", "Free KV blocks with findable content.", kv.cached);
  out.gauge("sluice_kv_blocks_free", "KV blocks without an owner, cached ones included.", kv.free);
  out.gauge("sluice_kv_swap_slots_total", "Places for blocks of preempted sequences.",
            kv.swap_total);
  out.gauge("sluice_kv_swap_slots_used", "Such places in use.", kv.swap_used);
  out.gauge("sluice_kv_sequences_swapped", "Preempted sequences that wait in swap.",
            kv.swapped_sequences);
  out.counter("sluice_kv_copies_total", "Shared blocks copied before they were written.",
              kv.copies);
  out.counter("sluice_kv_trimmed_total", "Blocks freed because of a window.", kv.trimmed);
  out.counter("sluice_kv_swapped_out_total", "Blocks taken to swap.", kv.swapped_out);
  out.counter("sluice_kv_evictions_total", "Cached blocks given to another content.", kv.evictions);
  out.counter("sluice_prefix_cache_queries_total",
              "Prompt positions looked up in the prefix cache.", kv.prefix_queries_positions);
  out.counter("sluice_prefix_cache_hits_total", "Prompt positions found in the prefix cache.",
              kv.prefix_hits_positions);
}

void write_scheduler(Exposition& out, const SchedulerStats& scheduler) {
  out.gauge("sluice_sequences_running", "Sequences that hold KV blocks.", scheduler.running);
  out.gauge("sluice_sequences_waiting", "Sequences in the queue.", scheduler.waiting);
  out.counter("sluice_steps_total", "Steps of the engine.", scheduler.steps);
  out.counter("sluice_prompt_tokens_total", "Prompt tokens computed, cached ones not counted.",
              scheduler.prompt_tokens);
  out.counter("sluice_generated_tokens_total", "Tokens drawn.", scheduler.generated_tokens);
  out.counter("sluice_preemptions_total", "Sequences put back into the queue for lack of blocks.",
              scheduler.preemptions);
  out.gauge("sluice_last_batch_tokens", "Tokens in the latest step.", scheduler.last_batch_tokens);
  out.gauge("sluice_last_batch_sequences", "Sequences in the latest step.",
            scheduler.last_batch_sequences);
}

void write_streams(Exposition& out, const EngineStats& stats) {
  out.gauge("sluice_ready", "1 when the model is loaded and the executor is alive.",
            stats.ready ? 1 : 0);
  out.gauge("sluice_sessions", "Streams that have not closed yet.", stats.sessions);
  out.counter("sluice_streams_started_total", "Streams started.", stats.streams_started);
  out.gauge("sluice_default_max_tokens", "Maximum of a stream whose request does not say.",
            stats.default_maximum.tokens);
  out.header("sluice_streams_finished_total", "Streams ended, by stop rule or error.", "counter");
  // Every rule from the start, so that its first stream shows as a rise from 0.
  std::map<std::string, std::uint64_t> finished = stats.streams_finished;
  for (const StopRule rule : all_stop_rules()) finished.try_emplace(std::string(name(rule)), 0);
  finished.try_emplace("error", 0);
  for (const auto& [rule, count] : finished) {
    out.sample("sluice_streams_finished_total", "rule", rule, count);
  }
  out.counter("sluice_executor_restarts_total", "Times the executor was started again.",
              stats.executor_restarts);
  out.counter("sluice_step_seconds_total", "Time spent in steps.", stats.step_seconds_sum);
  out.header("sluice_time_to_first_token_seconds", "From acceptance to the first token.",
             "summary");
  out.sample("sluice_time_to_first_token_seconds_sum", stats.ttft_seconds_sum);
  out.sample("sluice_time_to_first_token_seconds_count", stats.ttft_count);
}

void write_hub(Exposition& out, const HubStats& streams) {
  out.gauge("sluice_stream_viewers", "Viewers of streams on all connections.", streams.viewers);
  out.gauge("sluice_streams_unwatched", "Streams kept without a viewer, ended ones included.",
            streams.unwatched);
  out.gauge("sluice_stream_log_bytes", "Events kept for viewers and resumption, in bytes of JSON.",
            streams.log_bytes);
}

void write_server(Exposition& out, const Counters& counters) {
  out.gauge("sluice_connections", "Open connections, HTTP and WebSocket.",
            counters.connections.load());
  out.gauge("sluice_websockets", "Open WebSocket connections.", counters.websockets.load());
  out.gauge("sluice_queued_bytes", "Bytes waiting for clients to take them.",
            counters.queued_bytes.load());
  out.counter("sluice_http_requests_total", "HTTP requests, upgrades included.",
              counters.http_requests.load());
  out.counter("sluice_frames_received_total", "WebSocket messages from clients.",
              counters.frames_received.load());
  out.counter("sluice_frames_sent_total", "WebSocket messages to clients.",
              counters.frames_sent.load());
  out.counter("sluice_frame_bytes_sent_total", "Payload of WebSocket messages to clients.",
              counters.bytes_sent.load());
  out.counter("sluice_clients_dropped_total", "Clients ended for not taking what was sent.",
              counters.clients_dropped.load());
  out.counter("sluice_requests_refused_total",
              "Requests refused by Host, Origin or the connection limit.",
              counters.requests_refused.load());
}

}  // namespace

std::string metrics_text(const EngineStats& stats, const HubStats& streams,
                         const Counters& counters) {
  Exposition out;
  write_streams(out, stats);
  write_scheduler(out, stats.scheduler);
  write_kv(out, stats.kv);
  write_hub(out, streams);
  write_server(out, counters);
  return out.take();
}

}  // namespace sluice::web
