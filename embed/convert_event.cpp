#include "embed/convert.hpp"

namespace sluice::embed {

namespace {

api::StopRule to_public(StopRule rule) {
  switch (rule) {
    case StopRule::kMaxNewTokens:
      return api::StopRule::kMaxNewTokens;
    case StopRule::kEndToken:
      return api::StopRule::kEndToken;
    case StopRule::kStopString:
      return api::StopRule::kStopString;
    case StopRule::kLowConfidence:
      return api::StopRule::kLowConfidence;
    case StopRule::kRepetition:
      return api::StopRule::kRepetition;
    case StopRule::kCustom:
      return api::StopRule::kCustom;
    case StopRule::kTimeLimit:
      return api::StopRule::kTimeLimit;
    case StopRule::kContextFull:
      return api::StopRule::kContextFull;
    case StopRule::kCancelled:
      return api::StopRule::kCancelled;
  }
  return api::StopRule::kCancelled;
}

api::MaximumSource to_public(MaximumSource source) {
  switch (source) {
    case MaximumSource::kRequest:
      return api::MaximumSource::kRequest;
    case MaximumSource::kConfigured:
      return api::MaximumSource::kConfigured;
    case MaximumSource::kLearned:
      return api::MaximumSource::kLearned;
    case MaximumSource::kContext:
      return api::MaximumSource::kContext;
  }
  return api::MaximumSource::kRequest;
}

struct ToPublic {
  api::Event operator()(const AcceptedEvent& event) const {
    api::AcceptedEvent result;
    result.number = event.number;
    result.model = event.model;
    result.prompt_tokens = event.prompt_tokens;
    result.max_new_tokens = event.max_new_tokens;
    result.context_length = event.context_length;
    result.seed = event.seed;
    result.max_source = to_public(event.max_source);
    if (event.reasoning) {
      result.reasoning = api::ReasoningMarkers{event.reasoning->open, event.reasoning->close,
                                               event.reasoning->starts_open};
    }
    return result;
  }
  api::Event operator()(const TokenEvent& event) const {
    api::TokenEvent result;
    result.number = event.number;
    result.text = event.text;
    result.pieces.reserve(event.pieces.size());
    for (const TokenPiece& piece : event.pieces) {
      api::TokenPiece& copy = result.pieces.emplace_back();
      copy.id = piece.id;
      copy.text = piece.text;
      copy.logprob = piece.logprob;
      copy.top.reserve(piece.top.size());
      for (const TokenLogprob& other : piece.top) copy.top.push_back({other.id, other.logprob});
    }
    return result;
  }
  api::Event operator()(const DoneEvent& event) const {
    api::DoneEvent result;
    result.number = event.number;
    result.rule = to_public(event.rule);
    result.matched = event.matched;
    result.matched_token = event.matched_token;
    result.position = event.position;
    result.detail = event.detail;
    result.usage = {event.usage.prompt_tokens, event.usage.cached_tokens,
                    event.usage.completion_tokens};
    result.timing = {event.timing.queued, event.timing.first_token, event.timing.total,
                     event.timing.tokens_per_second};
    return result;
  }
  api::Event operator()(const ErrorEvent& event) const {
    return api::ErrorEvent{event.number, event.code, event.message};
  }
  api::Event operator()(const HeartbeatEvent& event) const {
    return api::HeartbeatEvent{event.number, event.phase, event.queue_position, event.prefill_done,
                               event.prefill_total};
  }
};

api::ErrorCode to_public(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return api::ErrorCode::kInvalidArgument;
    case ErrorCode::kNotFound:
      return api::ErrorCode::kNotFound;
    case ErrorCode::kCorrupt:
      return api::ErrorCode::kCorrupt;
    case ErrorCode::kUnsupported:
      return api::ErrorCode::kUnsupported;
    case ErrorCode::kDoesNotFit:
      return api::ErrorCode::kDoesNotFit;
    case ErrorCode::kIo:
      return api::ErrorCode::kIo;
    case ErrorCode::kInternal:
      return api::ErrorCode::kInternal;
  }
  return api::ErrorCode::kInternal;
}

}  // namespace

api::Event to_public(const Event& event) {
  return std::visit(ToPublic{}, event);
}

api::Info to_public(const ServiceInfo& info) {
  return {.model_name = info.model_name,
          .model_summary = info.model_summary,
          .backend = info.backend,
          .chat_template = info.chat_template,
          .tokenizer = info.tokenizer,
          .context_length = info.context_length,
          .default_max_new_tokens = info.default_max_new_tokens,
          .end_tokens = info.end_tokens};
}

api::Stats to_public(const EngineStats& stats) {
  return {.ready = stats.ready,
          .streams = stats.sessions,
          .waiting = stats.scheduler.waiting,
          .running = stats.scheduler.running,
          .steps = stats.scheduler.steps,
          .prompt_tokens = stats.scheduler.prompt_tokens,
          .generated_tokens = stats.scheduler.generated_tokens,
          .preemptions = stats.scheduler.preemptions,
          .kv_blocks = stats.kv.total,
          .kv_blocks_used = stats.kv.used,
          .kv_blocks_cached = stats.kv.cached,
          .streams_started = stats.streams_started,
          .streams_finished = stats.streams_finished,
          .backend_restarts = stats.executor_restarts};
}

api::Error to_public(const Error& error) {
  return {to_public(error.code()), error.what()};
}

}  // namespace sluice::embed

namespace sluice::v0 {

// The enumerators are in the same order; a test compares all names.

std::string_view name(StopRule rule) {
  return sluice::name(static_cast<sluice::StopRule>(rule));
}

std::string_view finish_reason(StopRule rule) {
  return sluice::finish_reason(static_cast<sluice::StopRule>(rule));
}

std::string_view name(MaximumSource source) {
  return sluice::name(static_cast<sluice::MaximumSource>(source));
}

}  // namespace sluice::v0
