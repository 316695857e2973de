#include "web/request_log.hpp"

#include <cstddef>
#include <string_view>
#include <variant>

#include "actors/log_line.hpp"

namespace sluice::web {
namespace {

constexpr std::size_t kLongestPath = 200;

double milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

bool comes_all_the_time(std::string_view path) {
  return path == "/health" || path == "/ready" || path == "/metrics";
}

/// Codes of errors that the server, not its client, has to answer for.
bool is_own_fault(std::string_view code) {
  return code == "backend_failed" || code == "generation_failed" || code.starts_with("internal");
}

void log_done(const std::string& request_id, const DoneEvent& done) {
  if (!log_wanted(LogLevel::kInfo)) return;
  LogFields fields;
  fields.add("request_id", request_id)
      .add("rule", name(done.rule))
      .add("reason", finish_reason(done.rule))
      .add("prompt_tokens", done.usage.prompt_tokens)
      .add("cached_tokens", done.usage.cached_tokens)
      .add("completion_tokens", done.usage.completion_tokens)
      .add("queued_ms", milliseconds(done.timing.queued))
      .add("ttft_ms", milliseconds(done.timing.first_token))
      .add("total_ms", milliseconds(done.timing.total));
  log_line(LogLevel::kInfo, "stream ended", fields);
}

}  // namespace

void log_request(const RequestRecord& record) {
  const LogLevel level = comes_all_the_time(record.path) ? LogLevel::kDebug : LogLevel::kInfo;
  if (!log_wanted(level)) return;
  LogFields fields;
  fields.add("request_id", record.request_id)
      .add("method", record.method)
      .add("path", std::string_view(record.path).substr(0, kLongestPath))
      .add("status", record.status)
      .add("bytes", record.bytes)
      .add("duration_ms", milliseconds(record.duration));
  if (!record.key_name.empty()) fields.add("key", record.key_name);
  log_line(level, "request", fields);
}

void log_stream_end(const std::string& request_id, const Event& event) {
  if (const auto* done = std::get_if<DoneEvent>(&event)) return log_done(request_id, *done);
  const auto* error = std::get_if<ErrorEvent>(&event);
  if (error == nullptr) return;
  const bool own_fault = is_own_fault(error->code);
  LogFields fields;
  fields.add("request_id", request_id).add("reason", "error").add("code", error->code);
  // The messages of other errors may quote what the client sent.
  if (own_fault) fields.add("detail", error->message);
  log_line(own_fault ? LogLevel::kWarning : LogLevel::kInfo, "stream ended", fields);
}

void log_stream_left(const std::string& request_id) {
  log_line(LogLevel::kInfo, "stream ended",
           LogFields()
               .add("request_id", request_id)
               .add("rule", name(StopRule::kCancelled))
               .add("reason", "client_gone"));
}

}  // namespace sluice::web
