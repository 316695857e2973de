#include "web/openai/answer_json.hpp"

#include <algorithm>

#include "engine/base/json_writer.hpp"
#include "engine/stream/utf8_accumulator.hpp"

namespace sluice::web::openai {
namespace {

/// No number is below it on the wire; JSON has no infinity.
constexpr double kLowestLogprob = -9999.0;

double finite(double logprob) {
  return std::max(logprob, kLowestLogprob);
}

void write_token(JsonWriter& json, const ReportedToken& token) {
  json.field("token", to_valid_utf8(token.bytes)).field("logprob", finite(token.logprob));
  json.key("bytes").begin_array();
  for (const char byte : token.bytes) json.value(std::int32_t{static_cast<unsigned char>(byte)});
  json.end_array();
}

void write_chat_logprobs(JsonWriter& json, const std::vector<ReportedToken>& tokens) {
  json.begin_object().key("content").begin_array();
  for (const ReportedToken& token : tokens) {
    json.begin_object();
    write_token(json, token);
    json.key("top_logprobs").begin_array();
    for (const ReportedToken& other : token.top) {
      json.begin_object();
      write_token(json, other);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().key("refusal").null().end_object();
}

void write_old_logprobs(JsonWriter& json, const std::vector<ReportedToken>& tokens) {
  json.begin_object().key("tokens").begin_array();
  for (const ReportedToken& token : tokens) json.value(to_valid_utf8(token.bytes));
  json.end_array().key("token_logprobs").begin_array();
  for (const ReportedToken& token : tokens) json.value(finite(token.logprob));
  json.end_array().key("top_logprobs").begin_array();
  for (const ReportedToken& token : tokens) {
    json.begin_object();
    for (const ReportedToken& other : token.top) {
      json.field(to_valid_utf8(other.bytes), finite(other.logprob));
    }
    json.end_object();
  }
  json.end_array().end_object();
}

void write_logprobs(JsonWriter& json, const AnswerHead& head,
                    const std::vector<ReportedToken>& tokens) {
  json.key("logprobs");
  if (!head.logprobs) {
    json.null();
  } else if (head.chat) {
    write_chat_logprobs(json, tokens);
  } else {
    write_old_logprobs(json, tokens);
  }
}

void write_end(JsonWriter& json, const DoneEvent& done) {
  json.field("finish_reason", finish_reason(done.rule))
      .field("stop_rule", name(done.rule))
      .field("matched", done.matched);
}

void write_usage(JsonWriter& json, const UsageSum& usage) {
  json.key("usage")
      .begin_object()
      .field("prompt_tokens", usage.prompt_tokens)
      .field("completion_tokens", usage.completion_tokens)
      .field("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  json.key("prompt_tokens_details")
      .begin_object()
      .field("cached_tokens", usage.cached_tokens)
      .end_object();
  json.key("completion_tokens_details")
      .begin_object()
      .field("reasoning_tokens", usage.reasoning_tokens)
      .end_object()
      .end_object();
}

void begin_answer(JsonWriter& json, const AnswerHead& head, std::string_view object) {
  json.begin_object()
      .field("id", head.id)
      .field("object", object)
      .field("created", head.created)
      .field("model", head.model)
      .key("choices")
      .begin_array();
}

void begin_chunk(JsonWriter& json, const AnswerHead& head) {
  begin_answer(json, head, head.chat ? "chat.completion.chunk" : "text_completion");
}

std::string end_chunk_object(JsonWriter& json, const AnswerHead& head) {
  json.end_array();
  if (head.include_usage) json.key("usage").null();
  return json.end_object().take();
}

JsonWriter& begin_choice(JsonWriter& json, std::size_t choice) {
  return json.begin_object().field("index", static_cast<std::uint64_t>(choice));
}

}  // namespace

std::string whole_json(const AnswerHead& head, const std::vector<WholeChoice>& choices,
                       const UsageSum& usage) {
  JsonWriter json;
  begin_answer(json, head, head.chat ? "chat.completion" : "text_completion");
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const WholeChoice& choice = choices[i];
    begin_choice(json, i);
    if (head.chat) {
      json.key("message").begin_object().field("role", "assistant");
      json.field("content", choice.all.text).key("refusal").null();
      if (!choice.all.reasoning.empty()) json.field("reasoning_content", choice.all.reasoning);
      json.end_object();
    } else {
      json.field("text", choice.all.text);
    }
    write_logprobs(json, head, choice.all.tokens);
    write_end(json, choice.done);
    json.end_object();
  }
  json.end_array();
  write_usage(json, usage);
  return json.end_object().take();
}

std::string role_chunk(const AnswerHead& head, std::size_t choice) {
  JsonWriter json;
  begin_chunk(json, head);
  begin_choice(json, choice).key("delta").begin_object();
  json.field("role", "assistant").field("content", "").end_object();
  json.key("logprobs").null().key("finish_reason").null().end_object();
  return end_chunk_object(json, head);
}

std::string delta_chunk(const AnswerHead& head, std::size_t choice, const Delta& delta) {
  JsonWriter json;
  begin_chunk(json, head);
  begin_choice(json, choice);
  if (head.chat) {
    json.key("delta").begin_object();
    if (!delta.reasoning.empty()) json.field("reasoning_content", delta.reasoning);
    if (!delta.text.empty() || delta.reasoning.empty()) json.field("content", delta.text);
    json.end_object();
  } else {
    json.field("text", delta.text);
  }
  write_logprobs(json, head, delta.tokens);
  json.key("finish_reason").null().end_object();
  return end_chunk_object(json, head);
}

std::string end_chunk(const AnswerHead& head, std::size_t choice, const DoneEvent& done) {
  JsonWriter json;
  begin_chunk(json, head);
  begin_choice(json, choice);
  if (head.chat) {
    json.key("delta").begin_object().end_object();
  } else {
    json.field("text", "");
  }
  json.key("logprobs").null();
  write_end(json, done);
  json.end_object();
  return end_chunk_object(json, head);
}

std::string usage_chunk(const AnswerHead& head, const UsageSum& usage) {
  JsonWriter json;
  begin_chunk(json, head);
  json.end_array();
  write_usage(json, usage);
  return json.end_object().take();
}

std::string sse(const std::string& json) {
  return "data: " + json + "\n\n";
}

std::string sse_comment(const HeartbeatEvent& beat) {
  return ": " + beat.phase + " " + std::to_string(beat.prefill_done) + "/" +
         std::to_string(beat.prefill_total) + "\n\n";
}

}  // namespace sluice::web::openai
