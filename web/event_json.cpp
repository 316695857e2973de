#include "web/event_json.hpp"

#include <variant>

#include "engine/base/json_writer.hpp"

namespace sluice::web {
namespace {

double milliseconds(std::chrono::microseconds time) {
  return static_cast<double>(time.count()) / 1000.0;
}

/// What the client calls a stream, and what everybody may call it.
struct Names {
  std::string_view id;
  const AcceptedNames& accepted;
  const TokenText& token_text;
};

JsonWriter& begin(JsonWriter& json, std::string_view type, std::string_view id,
                  std::uint64_t number) {
  return json.begin_object().field("type", type).field("id", id).field("n", number);
}

void write(JsonWriter& json, const Names& names, const AcceptedEvent& event) {
  begin(json, "accepted", names.id, event.number)
      .field("model", event.model)
      .field("prompt_tokens", event.prompt_tokens)
      .field("max_tokens", event.max_new_tokens)
      .field("max_tokens_from", name(event.max_source))
      .field("context_length", event.context_length)
      .field("seed", event.seed);
  if (!names.accepted.stream_key.empty()) json.field("stream", names.accepted.stream_key);
  if (!names.accepted.request_id.empty()) json.field("request_id", names.accepted.request_id);
  json.end_object();
}

void write_piece(JsonWriter& json, const TokenPiece& piece, const TokenText& token_text) {
  json.begin_object()
      .field("id", piece.id)
      .field("text", piece.text)
      .field("logprob", piece.logprob);
  if (!piece.top.empty()) {
    json.key("top").begin_array();
    for (const TokenLogprob& alternative : piece.top) {
      json.begin_object().field("id", alternative.id).field("logprob", alternative.logprob);
      if (token_text) json.field("text", token_text(alternative.id));
      json.end_object();
    }
    json.end_array();
  }
  json.end_object();
}

void write(JsonWriter& json, const Names& names, const TokenEvent& event) {
  begin(json, "token", names.id, event.number)
      .field("text", event.text)
      .key("tokens")
      .begin_array();
  for (const TokenPiece& piece : event.pieces) write_piece(json, piece, names.token_text);
  json.end_array().end_object();
}

void write(JsonWriter& json, const Names& names, const DoneEvent& event) {
  begin(json, "done", names.id, event.number)
      .field("reason", finish_reason(event.rule))
      .field("rule", name(event.rule))
      .field("matched", event.matched)
      .field("matched_token", event.matched_token)
      .field("position", event.position)
      .field("detail", event.detail);
  json.key("usage")
      .begin_object()
      .field("prompt_tokens", event.usage.prompt_tokens)
      .field("cached_tokens", event.usage.cached_tokens)
      .field("completion_tokens", event.usage.completion_tokens)
      .end_object();
  json.key("timing")
      .begin_object()
      .field("queued_ms", milliseconds(event.timing.queued))
      .field("ttft_ms", milliseconds(event.timing.first_token))
      .field("total_ms", milliseconds(event.timing.total))
      .field("tokens_per_second", event.timing.tokens_per_second)
      .end_object();
  json.end_object();
}

void write(JsonWriter& json, const Names& names, const ErrorEvent& event) {
  begin(json, "error", names.id, event.number)
      .field("code", event.code)
      .field("message", event.message)
      .end_object();
}

void write(JsonWriter& json, const Names& names, const HeartbeatEvent& event) {
  begin(json, "heartbeat", names.id, event.number)
      .field("phase", event.phase)
      .field("queue_position", event.queue_position)
      .field("prefill_done", event.prefill_done)
      .field("prefill_total", event.prefill_total)
      .end_object();
}

}  // namespace

DefaultMaximum default_maximum(const StreamService& service) {
  DefaultMaximum maximum = service.stats().default_maximum;
  if (maximum.tokens == 0) maximum.tokens = service.info().default_max_new_tokens;
  return maximum;
}

std::string hello_json(const ServiceInfo& info, const DefaultMaximum& maximum,
                       std::chrono::milliseconds max_keep) {
  JsonWriter json;
  json.begin_object()
      .field("type", "hello")
      .field("protocol", "sluice.v1")
      .field("model", info.model_name)
      .field("context_length", info.context_length)
      .field("max_tokens_default", maximum.tokens)
      .field("max_keep_ms", static_cast<std::int64_t>(max_keep.count()));
  json.key("sampling")
      .begin_object()
      .field("temperature", info.default_sampling.temperature)
      .field("top_p", info.default_sampling.top_p)
      .field("top_k", info.default_sampling.top_k)
      .field("min_p", info.default_sampling.min_p)
      .end_object();
  json.end_object();
  return json.take();
}

std::string event_json(std::string_view id, const Event& event, const AcceptedNames& accepted,
                       const TokenText& token_text) {
  JsonWriter json;
  std::visit([&](const auto& e) { write(json, {id, accepted, token_text}, e); }, event);
  return json.take();
}

std::string error_json(std::string_view code, std::string_view message) {
  JsonWriter json;
  json.begin_object()
      .field("type", "error")
      .field("code", code)
      .field("message", message)
      .end_object();
  return json.take();
}

std::string rate_refusal_json(std::string_view id, const RateRefusal& refusal) {
  JsonWriter json;
  begin(json, "error", id, 1)
      .field("code", "rate_limited")
      .field("message", refusal.message)
      .field("retry_after_ms", static_cast<std::int64_t>(refusal.retry_after.count()))
      .end_object();
  return json.take();
}

std::size_t estimated_json_bytes(const TokenEvent& event) {
  constexpr std::size_t kFrame = 64;        // type, id, n, brackets
  constexpr std::size_t kPiece = 48;        // id, text and logprob with their names
  constexpr std::size_t kAlternative = 52;  // id, logprob and text with their names
  std::size_t bytes = kFrame + event.text.size();
  for (const TokenPiece& piece : event.pieces) {
    bytes += kPiece + piece.text.size() + kAlternative * piece.top.size();
  }
  return bytes;
}

}  // namespace sluice::web
