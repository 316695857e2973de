#include "engine/stream/session_machine.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/stream/credit_ledger.hpp"
#include "engine/stream/judge_queue.hpp"
#include "engine/stream/rejection.hpp"
#include "engine/stream/session_phases.hpp"
#include "engine/stream/stream_clock.hpp"
#include "engine/stream/token_pipeline.hpp"

namespace sluice {
namespace {

PipelineOptions pipeline_options(const SessionConfig& config) {
  Position room = 0;
  if (config.context_length > config.prompt_tokens) {
    room = config.context_length - config.prompt_tokens;
  }
  Position maximum = config.max_new_tokens;
  if (config.max_from_context) {
    room = config.max_new_tokens;
    maximum = std::numeric_limits<Position>::max();
  }
  return {.stop = config.stop,
          .end_tokens = config.end_tokens,
          .limits = {.max_new_tokens = maximum, .room = room},
          .reasoning = config.reasoning};
}

}  // namespace

struct SessionMachine::Impl {
  Impl(SessionConfig settings, std::shared_ptr<const Tokenizer> tokenizer, Clock::time_point now)
      : config(std::move(settings)),
        pipeline(pipeline_options(config), tokenizer),
        queue(config.stop.judge, std::move(tokenizer)),
        credit(config.credit_window,
               queue.active() ? config.stop.judge.ahead : config.credit_window),
        clock(now, config.stop.time_limit, config.heartbeat_interval) {}

  void take_prefill(const Publication& publication, Clock::time_point now);
  void token_drawn(const SampledToken& token, Clock::time_point now, Output& out);
  void take_token(const SampledToken& token, std::optional<CustomEnd> judged, Clock::time_point now,
                  Output& out);
  void take_judged(std::vector<JudgeQueue::Judged> judged, Clock::time_point now, Output& out);
  void judge_failed(const std::string& why, Clock::time_point now, Output& out);
  void ask(Clock::time_point now, Output& out);
  void send_pieces(Output& out, Clock::time_point now);
  void end_by_rule(Verdict verdict, Clock::time_point now, Output& out);
  void end_by_error(ErrorEvent error, Clock::time_point now, Output& out);
  void end(Event terminal, Clock::time_point now, Output& out);
  void grant(Output& out);
  Usage usage() const;

  SessionConfig config;
  TokenPipeline pipeline;
  JudgeQueue queue;  ///< before the pipeline
  CreditLedger credit;
  StreamClock clock;
  SessionPhases phases;
  std::uint64_t last_number = 0;  ///< of the newest event

  std::vector<TokenPiece> pieces;   ///< to be sent with the output under way
  std::int32_t tokens_arrived = 0;  ///< with the input under way

  std::int32_t queue_position = 0;
  Position prefill_done = 0;
  Position prefill_total = 0;
  Position cached_tokens = 0;
};

SessionMachine::SessionMachine(SessionConfig config, std::shared_ptr<const Tokenizer> tokenizer,
                               Clock::time_point now)
    : impl_(std::make_unique<Impl>(std::move(config), std::move(tokenizer), now)) {}

SessionMachine::~SessionMachine() = default;
SessionMachine::SessionMachine(SessionMachine&&) noexcept = default;
SessionMachine& SessionMachine::operator=(SessionMachine&&) noexcept = default;

// -- inputs ---------------------------------------------------------------------------------------

SessionMachine::Output SessionMachine::start() {
  Impl& self = *impl_;
  Output out;
  if (self.last_number > 0) return out;
  const SessionConfig& config = self.config;
  self.last_number = 1;
  out.events.emplace_back(AcceptedEvent{
      1, config.model_name, config.prompt_tokens, config.max_new_tokens, config.context_length,
      config.seed, config.max_from_context ? MaximumSource::kContext : config.max_source});
  if (config.max_new_tokens <= 0) {
    const StopRule rule =
        config.max_from_context ? StopRule::kContextFull : StopRule::kMaxNewTokens;
    self.end_by_rule({.rule = rule}, self.clock.accepted(), out);
  }
  return out;
}

SessionMachine::Output SessionMachine::on_publications(std::span<const Publication> publications,
                                                       Clock::time_point now) {
  Impl& self = *impl_;
  Output out;
  for (const Publication& publication : publications) {
    if (self.phases.ended()) break;  // surplus tokens of an ended stream
    switch (publication.kind) {
      case Publication::Kind::kPrefill:
        self.take_prefill(publication, now);
        break;
      case Publication::Kind::kToken:
        self.token_drawn(publication.token, now, out);
        break;
      case Publication::Kind::kEndOfRoom:
        self.queue.set_end_of_room();
        if (self.queue.empty()) self.end_by_rule({.rule = StopRule::kContextFull}, now, out);
        break;
      case Publication::Kind::kFailed:
      case Publication::Kind::kExpired:
        self.end_by_error(failure(publication), now, out);
        break;
    }
  }
  self.send_pieces(out, now);
  self.ask(now, out);
  self.grant(out);
  return out;
}

SessionMachine::Output SessionMachine::on_judged(std::uint64_t question, StopAnswer answer,
                                                 Clock::time_point now) {
  Impl& self = *impl_;
  Output out;
  if (self.phases.ended() || !self.queue.expects(question)) return out;
  if (answer.failure.empty()) {
    self.take_judged(self.queue.take(std::move(answer)), now, out);
  } else {
    self.judge_failed(answer.failure, now, out);
  }
  return out;
}

SessionMachine::Output SessionMachine::on_rejected(RejectReason reason, Clock::time_point now) {
  Impl& self = *impl_;
  Output out;
  if (self.phases.ended()) return out;
  self.end_by_error(rejection(reason, self.config.prompt_tokens, self.config.context_length), now,
                    out);
  // The scheduler never had the sequence; with kDuplicateId the name is another stream's.
  out.remove_sequence = false;
  return out;
}

std::int32_t SessionMachine::restart() {
  Impl& self = *impl_;
  if (self.phases.ended()) return 0;
  self.phases.on(SessionInput::kRestarted);
  self.prefill_done = 0;
  self.prefill_total = 0;
  self.credit.scheduler_lost();
  return self.phases.paused() ? 0 : self.credit.grant();
}

SessionMachine::Output SessionMachine::fail(std::string code, std::string message,
                                            Clock::time_point now) {
  Output out;
  if (impl_->phases.ended()) return out;
  impl_->end_by_error({0, std::move(code), std::move(message)}, now, out);
  return out;
}

SessionMachine::Output SessionMachine::cancel(std::string detail, Clock::time_point now) {
  Output out;
  if (impl_->phases.ended()) return out;
  impl_->end_by_rule({.rule = StopRule::kCancelled, .detail = std::move(detail)}, now, out);
  return out;
}

void SessionMachine::set_queue_position(std::int32_t position) {
  impl_->queue_position = position;
}

SessionMachine::Output SessionMachine::on_delivered(std::uint64_t event_number) {
  Impl& self = *impl_;
  Output out;
  if (self.phases.closed()) return out;
  self.credit.delivered(event_number);
  if (self.phases.ended() && event_number >= self.last_number) {
    self.phases.on(SessionInput::kTerminalTaken);
    out.closed = true;
  }
  self.grant(out);
  return out;
}

SessionMachine::Output SessionMachine::on_listener_gone(Clock::time_point) {
  Impl& self = *impl_;
  Output out;
  if (self.phases.closed()) return out;
  out.remove_sequence = !self.phases.ended();
  out.closed = true;
  self.phases.on(SessionInput::kListenerGone);
  return out;
}

SessionMachine::Output SessionMachine::change(const StreamChanges& changes, Clock::time_point now) {
  Impl& self = *impl_;
  Output out;
  check_stream_changes(changes);
  if (self.phases.ended()) return out;
  if (auto verdict = self.pipeline.change(changes, self.pieces)) {
    self.end_by_rule(std::move(*verdict), now, out);
    return out;
  }
  self.send_pieces(out, now);
  if (changes.max_new_tokens) out.max_new_tokens = self.pipeline.max_new_tokens();
  out.temperature = changes.temperature;
  return out;
}

SessionMachine::Output SessionMachine::pause() {
  impl_->phases.on(SessionInput::kPaused);
  return {};
}

SessionMachine::Output SessionMachine::resume() {
  Output out;
  impl_->phases.on(SessionInput::kResumed);
  impl_->grant(out);
  return out;
}

SessionMachine::Output SessionMachine::on_tick(Clock::time_point now) {
  Impl& self = *impl_;
  Output out;
  if (self.phases.ended()) return out;
  if (self.clock.time_over(now) && self.pipeline.armed()) {
    self.end_by_rule({.rule = StopRule::kTimeLimit}, now, out);
  } else if (now >= self.queue.deadline()) {
    const auto limit = std::to_string(self.queue.rule().limit.count());
    self.judge_failed("it did not answer within " + limit + " ms", now, out);
  } else if (self.clock.silent_too_long(now)) {
    self.clock.sent(now);
    out.events.emplace_back(HeartbeatEvent{self.last_number, std::string(name(phase())),
                                           self.queue_position, self.prefill_done,
                                           self.prefill_total});
  }
  return out;
}

// -- observers ------------------------------------------------------------------------------------

SessionMachine::Clock::time_point SessionMachine::next_deadline() const {
  const Impl& self = *impl_;
  if (self.phases.ended()) return Clock::time_point::max();
  // Before the minimum the time limit can only end the stream together with a token.
  return std::min(self.clock.next_deadline(self.pipeline.armed()), self.queue.deadline());
}

SessionPhase SessionMachine::phase() const {
  return impl_->phases.now();
}

Position SessionMachine::max_new_tokens() const {
  return impl_->pipeline.max_new_tokens();
}

std::vector<TokenId> SessionMachine::generated_tokens() const {
  std::vector<TokenId> tokens = impl_->pipeline.tokens();
  const std::vector<TokenId> waiting = impl_->queue.tokens();
  tokens.insert(tokens.end(), waiting.begin(), waiting.end());
  return tokens;
}

TokenId SessionMachine::last_judged_token() const {
  const std::vector<TokenId>& tokens = impl_->pipeline.tokens();
  return tokens.empty() || !impl_->queue.empty() ? kNoToken : tokens.back();
}

std::string_view SessionMachine::held_text() const {
  return impl_->pipeline.held_text();
}

std::size_t SessionMachine::held_back_bytes() const {
  return impl_->pipeline.held_back_bytes();
}

// -- steps ----------------------------------------------------------------------------------------

void SessionMachine::Impl::take_prefill(const Publication& publication, Clock::time_point now) {
  phases.on(SessionInput::kPrefillMoved);
  clock.work_began(now);
  queue_position = 0;
  prefill_done = publication.done;
  prefill_total = publication.total;
  // After a preemption or a restart the output is prefilled as well; that is no cached prompt.
  if (pipeline.tokens().empty()) cached_tokens = std::max(cached_tokens, publication.cached);
}

void SessionMachine::Impl::token_drawn(const SampledToken& token, Clock::time_point now,
                                       Output& out) {
  phases.on(SessionInput::kTokenDrawn);
  clock.work_began(now);
  queue_position = 0;
  credit.token_arrived();
  if (!queue.active()) return take_token(token, std::nullopt, now, out);
  credit.token_waits();
  queue.push(token, pipeline.policy());
}

/// A token that nothing outside has to judge any more.
void SessionMachine::Impl::take_token(const SampledToken& token, std::optional<CustomEnd> judged,
                                      Clock::time_point now, Output& out) {
  clock.token_came(now);
  ++tokens_arrived;
  const std::size_t pieces_before = pieces.size();
  auto verdict = pipeline.push(token, clock.time_over(now), pieces, std::move(judged));
  if (verdict) return end_by_rule(std::move(*verdict), now, out);
  if (pieces.size() == pieces_before) --tokens_arrived;  // held back: its credit is free at once
}

void SessionMachine::Impl::take_judged(std::vector<JudgeQueue::Judged> judged,
                                       Clock::time_point now, Output& out) {
  for (JudgeQueue::Judged& entry : judged) {
    credit.token_judged();
    take_token(entry.token, std::move(entry.end), now, out);
    if (phases.ended()) return;  // what follows was drawn beyond the end
  }
  if (queue.at_end_of_room()) return end_by_rule({.rule = StopRule::kContextFull}, now, out);
  send_pieces(out, now);
  ask(now, out);
  grant(out);
}

void SessionMachine::Impl::judge_failed(const std::string& why, Clock::time_point now,
                                        Output& out) {
  if (!queue.rule().ignore_failure) {
    return end_by_error(
        {0, "stop_rule_failed", "The caller's own stop rule failed: " + to_valid_utf8(why) + "."},
        now, out);
  }
  credit.judge_gone();
  take_judged(queue.retire(), now, out);
}

void SessionMachine::Impl::ask(Clock::time_point now, Output& out) {
  if (phases.ended()) return;
  out.question =
      queue.ask(static_cast<Position>(pipeline.tokens().size()), pipeline.max_new_tokens(), now);
}

/// One event for all that this input brought to light.
void SessionMachine::Impl::send_pieces(Output& out, Clock::time_point now) {
  const std::int32_t tokens = std::exchange(tokens_arrived, 0);
  if (pieces.empty()) return;
  TokenEvent event{++last_number, {}, std::exchange(pieces, {})};
  for (const TokenPiece& piece : event.pieces) event.text += piece.text;
  credit.event_sent(event.number, tokens);
  clock.sent(now);
  out.events.emplace_back(std::move(event));
}

void SessionMachine::Impl::end_by_rule(Verdict verdict, Clock::time_point now, Output& out) {
  if (verdict.failed) return end_by_error({0, "stop_rule_failed", verdict.detail}, now, out);
  pipeline.finish(pieces);  // nothing more to do when a token brought the verdict
  DoneEvent done;
  done.rule = verdict.rule;
  done.matched = std::move(verdict.matched);
  done.matched_token = verdict.matched_token;
  done.position = verdict.rule == StopRule::kStopString ? verdict.position : pipeline.text_bytes();
  done.detail = std::move(verdict.detail);
  done.usage = usage();
  done.timing = clock.timing(now, static_cast<std::int64_t>(pipeline.tokens().size()));
  end(std::move(done), now, out);
}

void SessionMachine::Impl::end_by_error(ErrorEvent error, Clock::time_point now, Output& out) {
  pipeline.finish(pieces);
  end(std::move(error), now, out);
}

/// The only place where a terminal event is made: text first, then the event, then flushing.
void SessionMachine::Impl::end(Event terminal, Clock::time_point now, Output& out) {
  send_pieces(out, now);
  std::visit([&](auto& event) { event.number = ++last_number; }, terminal);
  out.events.push_back(std::move(terminal));
  out.remove_sequence = true;
  phases.on(SessionInput::kEnded);
}

void SessionMachine::Impl::grant(Output& out) {
  if (!phases.ended() && !phases.paused()) out.credit = credit.grant();
}

Usage SessionMachine::Impl::usage() const {
  return {config.prompt_tokens, cached_tokens, static_cast<Position>(pipeline.tokens().size())};
}

}  // namespace sluice
