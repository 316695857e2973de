#include "web/openai/completion.hpp"

#include <algorithm>
#include <utility>

#include "engine/stream/samples.hpp"

namespace sluice::web::openai {
namespace {

void append(Delta& to, Delta more) {
  to.text += more.text;
  to.reasoning += more.reasoning;
  for (ReportedToken& token : more.tokens) to.tokens.push_back(std::move(token));
}

}  // namespace

Completion::Completion(const ApiRequest& request, const StreamService& service, std::string id,
                       std::int64_t created)
    : stream_(request.stream),
      head_{.chat = request.chat,
            .id = std::move(id),
            .model = service.info().model_name,
            .created = created,
            .logprobs = request.logprobs,
            .include_usage = request.include_usage},
      choices_per_prompt_(static_cast<std::size_t>(request.n)),
      choices_(request.num_choices(), Choice(service.tokenizer(), request.logprobs, request.chat)),
      texts_(request.num_choices()),
      accepted_(request.num_choices()) {}

Completion::Output Completion::on_event(std::size_t choice, const Event& event) {
  if (const auto* accepted = std::get_if<AcceptedEvent>(&event)) {
    choices_[choice].on_accepted(*accepted);
    return on_accepted(choice);
  }
  if (const auto* token = std::get_if<TokenEvent>(&event)) return on_token(choice, *token);
  if (const auto* done = std::get_if<DoneEvent>(&event)) return on_done(choice, *done);
  if (const auto* error = std::get_if<ErrorEvent>(&event)) return fail(from_event(*error));
  Output out;
  if (stream_ && begun()) out.body = sse_comment(std::get<HeartbeatEvent>(event));
  return out;
}

Completion::Output Completion::on_accepted(std::size_t choice) {
  Output out;
  accepted_[choice] = true;
  ++num_accepted_;
  if (!begun() || !stream_) return out;
  out.head = true;
  for (std::size_t i = 0; head_.chat && i < choices_.size(); ++i) {
    out.body += sse(role_chunk(head_, i));
  }
  return out;
}

Completion::Output Completion::on_token(std::size_t choice, const TokenEvent& token) {
  Output out;
  Delta delta = choices_[choice].on_token(token);
  if (!stream_) {
    append(texts_[choice], std::move(delta));
  } else if (!delta.empty()) {
    out.body = sse(delta_chunk(head_, choice, delta));
  }
  return out;
}

Completion::Output Completion::on_done(std::size_t choice, const DoneEvent& done) {
  if (done.rule == StopRule::kCancelled) return fail(shutting_down());
  Output out;
  Delta rest = choices_[choice].on_done(done);
  if (stream_ && !rest.empty()) out.body = sse(delta_chunk(head_, choice, rest));
  if (stream_) out.body += sse(end_chunk(head_, choice, done));
  append(texts_[choice], std::move(rest));
  if (++num_ended_ < choices_.size()) return out;
  out.ended = true;
  if (stream_) {
    if (head_.include_usage) out.body += sse(usage_chunk(head_, usage()));
    out.body += kSseDone;
    return out;
  }
  std::vector<WholeChoice> all;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    all.push_back({std::move(texts_[i]), choices_[i].done()});
  }
  out.whole.emplace().body = whole_json(head_, all, usage());
  return out;
}

Completion::Output Completion::fail(const ApiError& error) const {
  Output out;
  out.ended = out.failed = true;
  if (stream_ && begun()) {
    out.body = sse(error_json(error));
  } else {
    out.whole = to_response(error);
  }
  return out;
}

UsageSum Completion::usage() const {
  UsageSum sum;
  Position cached = 0;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Usage& usage = choices_[i].done().usage;
    sum.completion_tokens += usage.completion_tokens;
    sum.reasoning_tokens += choices_[i].reasoning_tokens();
    if (i % choices_per_prompt_ == 0) {
      sum.prompt_tokens += usage.prompt_tokens;
      cached = usage.cached_tokens;
    }
    // What one answer has from another of this request was computed all the same.
    cached = std::min(cached, usage.cached_tokens);
    if ((i + 1) % choices_per_prompt_ == 0) sum.cached_tokens += cached;
  }
  return sum;
}

std::vector<GenerateRequest> streams_of(const ApiRequest& request) {
  std::vector<GenerateRequest> streams;
  for (const GenerateRequest& prompt : request.prompts) {
    for (GenerateRequest& sample : sample_requests(prompt, request.n)) {
      streams.push_back(std::move(sample));
    }
  }
  return streams;
}

}  // namespace sluice::web::openai
