// The life of one stream as a plain state machine: tokens in, events and credit out.
//
//   queued -> prefill -> decode -> flushing -> closed
//
// Every end, whatever its reason, goes through flushing: text that may still be shown is sent,
// then the one terminal event, and the machine closes when the listener has taken it (or is
// gone). The session actor owns one machine and only moves its outputs along.
//
// The transition table is session_phases.hpp, drawn in docs/stop-rules.md; the accounting of
// credit is credit_ledger.hpp.
//
// Credit: the scheduler may draw as many tokens as the machine has granted. Tokens whose event
// has been delivered, and tokens that caused no event (held back), are granted again.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/schedule/scheduler.hpp"
#include "engine/stream/events.hpp"
#include "engine/stream/request.hpp"
#include "engine/stream/scope_matcher.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace sluice {

/// What the machine needs to know about its stream, all decided before it starts.
struct SessionConfig {
  std::string model_name{};
  Position prompt_tokens = 0;
  Position context_length = 0;
  Position max_new_tokens = 0;  ///< in force
  /// The context allows no more than max_new_tokens, fewer than were asked for: whoever reaches
  /// it ends as context_full.
  bool max_from_context = false;
  MaximumSource max_source = MaximumSource::kRequest;  ///< of what was asked for
  StopOptions stop{};
  std::vector<TokenId> end_tokens{};  ///< the model's, already empty when ignored
  std::uint64_t seed = 0;
  std::int32_t num_top_logprobs = 0;
  std::int32_t credit_window = 16;  ///< tokens on their way to the listener at most
  std::chrono::milliseconds heartbeat_interval{10000};  ///< 0: none
  /// How the model marks its reasoning; without, all output is content (see StopScope).
  std::optional<ReasoningMarkers> reasoning{};
};

enum class SessionPhase { kQueued, kPrefill, kDecode, kPaused, kFlushing, kClosed };

std::string_view name(SessionPhase phase);

class SessionMachine {
 public:
  using Clock = std::chrono::steady_clock;

  /// What has to be done after an input, in this order.
  struct Output {
    std::vector<Event> events;                 ///< to the listener
    std::int32_t credit = 0;                   ///< to the scheduler
    std::optional<Position> max_new_tokens{};  ///< to the scheduler, also for a restart
    std::optional<float> temperature{};        ///< likewise
    std::optional<StopQuestion> question{};    ///< to the judge; its stream is left 0
    bool remove_sequence = false;  ///< tell scheduler and KV manager that the sequence is over
    bool closed = false;           ///< nothing more will come; the owner may go
  };

  /// Throws Error(kInvalidArgument) for stop options that can't work (check_stop_options).
  SessionMachine(SessionConfig config, std::shared_ptr<const Tokenizer> tokenizer,
                 Clock::time_point now);
  ~SessionMachine();
  SessionMachine(SessionMachine&&) noexcept;
  SessionMachine& operator=(SessionMachine&&) noexcept;

  /// The first output: `accepted`. Initial credit goes with the submission: credit_window.
  Output start();
  /// From the scheduler. Anything that arrives after the end is ignored.
  Output on_publications(std::span<const Publication> publications, Clock::time_point now);
  /// The scheduler refused the submission.
  Output on_rejected(RejectReason reason, Clock::time_point now);
  /// Scheduler or executor died. The machine says which tokens to resubmit with
  /// (generated_tokens()); the caller restarts, or ends the stream with fail().
  ///
  /// restart() is the first way: the sequence waits in the queue again. Returns the credit to
  /// submit it with (0 when paused or when the listener has not taken enough yet).
  std::int32_t restart();
  /// The second way: shows what was held back, then an ErrorEvent.
  Output fail(std::string code, std::string message, Clock::time_point now);
  Output cancel(std::string detail, Clock::time_point now);
  /// The judge's answer to the question of this number; one that nobody waits for is ignored.
  Output on_judged(std::uint64_t question, StopAnswer answer, Clock::time_point now);
  /// Queue position for heartbeats.
  void set_queue_position(std::int32_t position);
  /// The listener has taken every event up to and including this number.
  Output on_delivered(std::uint64_t event_number);
  /// The listener is gone and nobody will come back: ends as cancelled, waits for nothing.
  Output on_listener_gone(Clock::time_point now);
  /// Steers a running stream; see StreamChanges. Output has what the scheduler must know, unless
  /// the change ended the stream. Throws Error(kInvalidArgument) and changes nothing when
  /// check_stream_changes (stop_policy.hpp) would.
  Output change(const StreamChanges& changes, Clock::time_point now);
  Output pause();
  Output resume();
  /// Drives time limit, heartbeats and the judge's limit. Call at next_deadline() or later.
  Output on_tick(Clock::time_point now);
  Clock::time_point next_deadline() const;

  SessionPhase phase() const;
  /// In force; what the context allows at most.
  Position max_new_tokens() const;
  /// All tokens drawn and accepted so far, for exact continuation after a restart.
  std::vector<TokenId> generated_tokens() const;
  /// The last of them, once nothing waits for a verdict; kNoToken before.
  TokenId last_judged_token() const;
  /// Bytes held back at present (may become a stop, or an incomplete code point).
  std::size_t held_back_bytes() const;
  /// The whole code points among them.
  std::string_view held_text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
