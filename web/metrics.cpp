#include "web/metrics.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "web/exposition.hpp"
#include "web/stop_rule_list.hpp"

namespace sluice::web {
namespace {

void write_model(Exposition& out, const ServiceInfo& info, const EngineStats& stats) {
  out.begin("sluice_model_info", "What is served and on what; always 1.", "gauge");
  out.sample({{"model", info.model_name}, {"backend", info.backend}}, 1);
  out.gauge("sluice_ready", "1 when the model is loaded and the executor is alive.",
            stats.ready ? 1 : 0);
  out.gauge("sluice_context_tokens", "Positions that one stream can have.", info.context_length);
  out.gauge("sluice_default_max_tokens", "Maximum of a stream whose request does not say.",
            stats.default_maximum.tokens);
  out.begin("sluice_memory_planned_bytes", "Memory by use, as the plan says.", "gauge");
  const MemoryPlan& plan = info.plan;
  out.sample({{"use", "weights"}}, plan.weights_bytes);
  out.sample({{"use", "kv"}}, plan.kv_pool_bytes);
  out.sample({{"use", "scratch"}}, plan.scratch_bytes);
  out.sample({{"use", "swap"}}, plan.swap_file.empty() ? plan.swap_bytes : 0);
  out.sample({{"use", "headroom"}}, plan.headroom_bytes);
  out.begin("sluice_memory_taken_bytes", "Memory by use, as the backend took it at its start.",
            "gauge");
  out.sample({{"use", "weights"}}, stats.memory.weights_bytes);
  out.sample({{"use", "kv"}}, stats.memory.kv_bytes);
  out.sample({{"use", "scratch"}}, stats.memory.scratch_bytes);
  out.sample({{"use", "swap"}}, stats.memory.swap_bytes);
}

void write_streams(Exposition& out, const EngineStats& stats) {
  out.gauge("sluice_streams_open", "Streams that have not closed yet.", stats.sessions);
  out.counter("sluice_streams_started_total", "Streams started.", stats.streams_started);
  out.begin("sluice_streams_finished_total", "Streams that ended, by finish reason and stop rule.",
            "counter");
  // Every rule from the start, so that its first stream shows as a rise from 0.
  for (const StopRule rule : all_stop_rules()) {
    const auto found = stats.streams_finished.find(std::string(name(rule)));
    out.sample({{"reason", finish_reason(rule)}, {"rule", name(rule)}},
               found == stats.streams_finished.end() ? 0 : found->second);
  }
  const auto errors = stats.streams_finished.find("error");
  out.sample({{"reason", "error"}, {"rule", "error"}},
             errors == stats.streams_finished.end() ? 0 : errors->second);
  constexpr std::array<const char*, 10> kCodes = {
      "invalid_request",   "empty_prompt",  "prompt_too_long", "queue_full",
      "queue_timeout",     "shutting_down", "backend_failed",  "internal",
      "generation_failed", "internal_error"};
  std::map<std::string, std::uint64_t> codes = stats.stream_errors;
  for (const char* code : kCodes) codes.try_emplace(code, 0);
  out.begin("sluice_stream_errors_total", "Streams that ended with an error, by its code.",
            "counter");
  for (const auto& [code, count] : codes) out.sample({{"code", code}}, count);
}

void write_latencies(Exposition& out, const EngineHistograms& histograms) {
  out.histogram("sluice_queue_time_seconds", "From acceptance to the first prefill.",
                histograms.queue_seconds);
  out.histogram("sluice_time_to_first_token_seconds", "From acceptance to the first token.",
                histograms.ttft_seconds);
  out.histogram("sluice_inter_token_latency_seconds",
                "Between the tokens of a stream, pauses by its client left out.",
                histograms.itl_seconds);
  out.histogram("sluice_stream_duration_seconds", "From acceptance to the end of a stream.",
                histograms.stream_seconds);
  out.histogram("sluice_stream_prompt_tokens", "Length of the prompts of streams that are done.",
                histograms.prompt_tokens);
  out.histogram("sluice_stream_generated_tokens", "Length of the answers of streams that are done.",
                histograms.answer_tokens);
}

void write_scheduler(Exposition& out, const EngineStats& stats) {
  const SchedulerStats& scheduler = stats.scheduler;
  out.gauge("sluice_sequences_running", "Sequences that hold KV blocks.", scheduler.running);
  out.gauge("sluice_sequences_waiting", "Sequences in the queue.", scheduler.waiting);
  out.counter("sluice_prompt_tokens_total", "Prompt tokens computed, cached ones not counted.",
              scheduler.prompt_tokens);
  out.counter("sluice_generated_tokens_total", "Tokens drawn.", scheduler.generated_tokens);
  out.counter("sluice_preemptions_total", "Sequences put back into the queue for lack of blocks.",
              scheduler.preemptions);
  out.histogram("sluice_step_duration_seconds", "Time of one step of the backend.",
                stats.histograms.step_seconds);
  out.histogram("sluice_step_tokens", "Tokens in one step, prefill and decode together.",
                stats.histograms.step_tokens);
  out.histogram("sluice_step_sequences", "Sequences in one step.", stats.histograms.step_sequences);
  out.counter("sluice_executor_restarts_total", "Times the executor was started again.",
              stats.executor_restarts);
}

void write_kv(Exposition& out, const KvStats& kv) {
  out.gauge("sluice_kv_blocks", "KV blocks in the pool.", kv.total);
  out.gauge("sluice_kv_blocks_used", "KV blocks owned by at least one sequence.", kv.used);
  out.gauge("sluice_kv_blocks_cached", "Free KV blocks with findable content.", kv.cached);
  out.gauge("sluice_kv_blocks_free", "KV blocks without an owner, cached ones included.", kv.free);
  out.gauge("sluice_kv_usage_ratio", "Share of the KV blocks that are owned, 0 to 1.",
            kv.total > 0 ? static_cast<double>(kv.used) / kv.total : 0.0);
  out.gauge("sluice_kv_swap_slots", "Places for blocks of preempted sequences.", kv.swap_total);
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
  out.begin("sluice_http_responses_total", "HTTP responses, by class of status.", "counter");
  for (std::size_t i = 0; i < counters.http_responses_of.size(); ++i) {
    out.sample({{"code", std::to_string(i + 1) + "xx"}}, counters.http_responses_of[i].load());
  }
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

/// Only where there is something beside the CPU.
void write_devices(Exposition& out, const std::vector<DeviceUsage>& devices) {
  if (devices.empty()) return;
  const auto each = [&](std::string_view name, std::string_view help, auto value_of) {
    out.begin(name, help, "gauge");
    for (const DeviceUsage& device : devices) {
      out.sample({{"gpu", std::to_string(device.index)}, {"name", device.name}}, value_of(device));
    }
  };
  each("sluice_gpu_utilization_ratio", "Share of the last moment in which the GPU computed.",
       [](const DeviceUsage& device) { return device.utilization; });
  each("sluice_gpu_memory_used_bytes", "Memory of the GPU in use, by whomever.",
       [](const DeviceUsage& device) { return device.used_bytes; });
  each("sluice_gpu_memory_bytes", "Memory of the GPU.",
       [](const DeviceUsage& device) { return device.total_bytes; });
}

/// Under the names that Prometheus' own client libraries use.
void write_process(Exposition& out, const ProcessUsage& process) {
  out.counter("process_cpu_seconds_total", "CPU time of the process, user and system.",
              process.cpu_seconds);
  out.gauge("process_resident_memory_bytes", "Memory of the process in RAM, mapped files included.",
            process.resident_bytes);
  out.gauge("process_virtual_memory_bytes", "Address space of the process.", process.virtual_bytes);
  out.gauge("process_threads", "Threads of the process.", process.threads);
  out.gauge("process_open_fds", "Open file descriptors.", process.open_files);
  out.gauge("process_max_fds", "Limit of open file descriptors.", process.max_files);
  out.gauge("process_start_time_seconds", "When the process started, as Unix time.",
            process.start_seconds);
}

}  // namespace

std::string metrics_text(const MetricSources& sources) {
  Exposition out;
  write_model(out, sources.info, sources.engine);
  write_streams(out, sources.engine);
  write_latencies(out, sources.engine.histograms);
  write_scheduler(out, sources.engine);
  write_kv(out, sources.engine.kv);
  write_hub(out, sources.streams);
  write_server(out, sources.server);
  write_devices(out, sources.devices);
  if (sources.process) write_process(out, *sources.process);
  return out.take();
}

}  // namespace sluice::web
