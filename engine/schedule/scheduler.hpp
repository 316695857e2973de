// Which sequences take part in the next step, and with how many tokens.
//
// A plain state machine; the scheduler actor and the synchronous loop drive it the same way:
//
//   admissions() -> ask the KV manager -> admitted()/refused()
//   plan()       -> ask the KV manager -> build(grants) -> run the batch -> complete(result)
//
// Every step holds one token for each running sequence that has credit, then prefill chunks in
// order of arrival, up to the token budget. A sequence without credit misses steps and keeps its
// blocks. When the pool runs dry the youngest running sequence is preempted: its blocks go back,
// it returns to the head of the queue and later recomputes prompt and output, or gets its blocks
// back from swap; the result is exactly the same.
// The oldest running sequence is never preempted, so it always progresses. One exception: when
// nothing at all could move, a sequence that could not have gone on anyway for
// `idle_preempt_after` (paused, or no verdict) gives way, whatever its age. A waiting sequence
// that could not draw (no credit) lets others pass; nobody waits for a slow session.
//
// When nothing got blocks, plan(), admissions() and has_work() are empty or false until
// something changes: a request of a session, a completed step, or time in poll(). Call poll()
// every 100 ms or so.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.hpp"
#include "engine/base/types.hpp"
#include "engine/kv/kv_manager.hpp"
#include "engine/sampling/sampling_params.hpp"

namespace sluice {

struct SchedulerOptions {
  Position token_budget = 512;    ///< tokens in a step
  Position prefill_chunk = 256;   ///< tokens of one prompt in a step, so that decode keeps its pace
  std::int32_t max_running = 64;  ///< sequences holding blocks
  std::int32_t max_waiting = 1024;           ///< queue length; one more is refused
  std::size_t max_waiting_tokens = 1 << 20;  ///< prompt tokens in the queue
  Position context_length = 0;               ///< prompt and output of one sequence; 0: no limit
  /// Of an encoder-decoder model: tokens of the longest input; 0: a decoder alone. An input goes
  /// through the encoder in one step, beside the token budget, and a step takes inputs of at most
  /// so many tokens together: nobody waits longer for an encoder than for one of the longest input.
  Position max_encoder_input = 0;
  std::int32_t max_passes = 64;  ///< so many later requests of higher priority may pass one
  std::chrono::milliseconds queue_deadline{0};  ///< 0: wait for ever; only before the first
                                                ///< admission
  /// See the top of this file; measured from one poll() to another. 0: never.
  std::chrono::milliseconds idle_preempt_after{2000};
};

/// What a session asks for. `generated` is not empty when a session continues after a failure:
/// the tokens already drawn, which are fed again and not drawn again.
struct SequenceRequest {
  SequenceId id = 0;
  /// With an encoder: its input, then the token that the decoder starts from.
  std::vector<TokenId> prompt;
  std::vector<TokenId> generated;
  std::shared_ptr<const SamplingParams> sampling;
  Position max_new_tokens = 0;  ///< after so many output tokens the sequence waits for its verdict
  std::vector<TokenId> end_tokens;  ///< after one of these likewise, unless it comes before the
                                    ///< min_new_tokens-th token
  std::int32_t credit = 0;          ///< tokens that may be drawn before more credit arrives
  std::string salt;
  /// Sequences with the same number, prompt and salt are samples of one prompt: it is computed
  /// once, the others wait for that and share its blocks. 0: none.
  std::uint64_t sample_group = 0;
  /// Higher ones go before lower ones that arrived earlier, see WaitingQueue.
  std::int32_t priority = 0;
};

/// Answer to a submission that can't be taken.
/// Sequences that continue (`generated` not empty) are not refused for a full queue.
enum class RejectReason {
  kNone,
  kQueueFull,
  kPromptTooLong,
  kInputTooLong,  ///< for the encoder
  kEmptyPrompt,
  kDuplicateId,
  kStopping
};

/// A sentence for a person.
std::string reject_message(RejectReason reason);

struct KvWant {
  SequenceId sequence = 0;
  Position positions = 0;  ///< the table must cover so many
};

struct KvGrant {
  SequenceId sequence = 0;
  bool granted = false;
  std::vector<BlockId> blocks{};                    ///< the sequence's table
  std::vector<std::vector<BlockId>> more_blocks{};  ///< of the groups after the first
  /// Not granted because the KV manager does not know the sequence (its owner died a moment ago
  /// and remove() is on its way): nobody is preempted for it.
  bool unknown = false;
};

/// Asks the KV manager for what a step needs.
KvGrant ask_for(KvManager& kv, const KvWant& want);

/// The pool that a KV manager with these options accounts for.
KvPoolShape pool_for(const KvManagerOptions& options);

/// What happened to a sequence, for its session.
struct Publication {
  enum class Kind {
    kPrefill,    ///< prefill moved on: `done` of `total` positions (prompt, and when resumed
                 ///< output); at most one a sequence and step, before the token of that step
    kToken,      ///< `token` was drawn
    kEndOfRoom,  ///< no further token fits (context length, or the pool while alone in it);
                 ///< after the last token, once; the sequence stays until remove()
    kFailed,     ///< `message`; the sequence is gone
    kExpired,    ///< waited longer than the queue deadline; the sequence is gone
  };
  SequenceId sequence = 0;
  Kind kind = Kind::kToken;
  SampledToken token;
  Position done = 0;
  Position total = 0;
  Position cached = 0;  ///< with kPrefill: prompt positions that came from the prefix cache at
                        ///< the first admission
  std::string message;
};

enum class SequencePhase { kUnknown, kWaiting, kPrefill, kDecode, kPaused, kAwaitingVerdict };

struct SequenceStatus {
  SequenceId id = 0;
  SequencePhase phase = SequencePhase::kUnknown;
  std::int32_t queue_position = 0;  ///< 1 is next; 0 when not waiting
  Position computed = 0;            ///< positions in the KV
  Position total = 0;               ///< prompt plus output so far
  std::int32_t credit = 0;
};

struct SchedulerStats {
  std::int32_t waiting = 0;
  std::int32_t running = 0;  ///< admitted, in any phase
  std::uint64_t steps = 0;
  std::uint64_t prompt_tokens = 0;  ///< computed (cached ones not counted)
  std::uint64_t generated_tokens = 0;
  std::uint64_t preemptions = 0;
  Position last_batch_tokens = 0;
  std::int32_t last_batch_sequences = 0;
};

class Scheduler {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // -- requests of sessions ---------------------------------------------------------------

  RejectReason submit(SequenceRequest request, Clock::time_point now);
  /// Removes a sequence in any phase. Its part in a running step is ignored when that returns.
  /// True when it was known; the caller then releases its blocks.
  bool remove(SequenceId id);
  void add_credit(SequenceId id, std::int32_t tokens);
  /// From the next token on.
  void set_sampling(SequenceId id, std::shared_ptr<const SamplingParams> sampling);
  /// At once: a larger maximum re-opens a sequence that waits at its maximum, a smaller one
  /// makes it wait.
  void set_max_new_tokens(SequenceId id, Position max_new_tokens);
  /// The session decided to go on after an end token, or, for one more token, at its maximum.
  void resume_after_verdict(SequenceId id);

  // -- the step -----------------------------------------------------------------------------

  /// One waiting sequence to ask the KV manager for, in order of arrival.
  struct AdmissionWant {
    SequenceId sequence = 0;
    std::span<const TokenId>
        tokens;  ///< prompt and, when resumed, output; valid until the next call
    std::string_view salt;
    KvFork fork{};  ///< a sample of the same prompt that has computed it
  };
  /// The waiting sequences worth asking for now (at most the free places in max_running).
  std::vector<AdmissionWant> admissions() const;
  /// Takes the answers in the order of admissions(). Strict first come, first served: answers
  /// after the first that was not admitted must be absent or kNotNow.
  /// kNever ends the sequence (a publication in the next complete() or poll()); one with output
  /// gets kEndOfRoom. An answer for a sequence removed in the meantime is ignored; remove()'s
  /// caller releases the blocks after it has asked for them.
  void on_admission(SequenceId id, const KvAdmission& admission);

  /// Positions that the next step needs, most urgent first. Empty: nothing to do now.
  /// No second plan() before build(): blocks granted in between would be forgotten.
  std::vector<KvWant> plan();

  /// A sequence to preempt (KvManager::preempt) before asking again for what was not granted: the
  /// youngest running one, when it is younger than the oldest that was refused. It goes to the
  /// head of the queue. Empty when nobody has to go: the refused ones wait for a later step; one
  /// that is alone gets kEndOfRoom. Call it until it is empty, also when plan() was; `grants` may
  /// be all grants so far or only the new ones:
  ///
  ///   grants = ask(plan());
  ///   while (!(victims = preempt_for(grants)).empty()) { preempt(victims); ask again }
  ///   batch = build(grants);
  std::vector<SequenceId> preempt_for(std::span<const KvGrant> grants);

  /// Turns the grants into a batch. What was not granted stays for a later step. When the batch
  /// is empty no step is running: call poll() instead of complete(). The driver adds the KV
  /// manager's moves; without a step they wait for the next.
  StepBatch build(std::span<const KvGrant> grants);

  /// What was computed, for the KV manager's commit; see complete().
  struct Commit {
    SequenceId sequence = 0;
    std::vector<TokenId> tokens;
  };
  struct Outcome {
    std::vector<Publication> publications;
    std::vector<Commit> commits;
    std::vector<SequenceId> released;  ///< gone from here: the KV manager must release them
  };
  /// Takes the result of the batch that build() returned. A result with another number is
  /// ignored. After a fatal result nothing is reported for the sequences, and they stay as they
  /// were before the step: the caller replaces backend, KV accounting and scheduler, and the
  /// sessions submit again.
  Outcome complete(const StepResult& result);

  /// Publications that arose outside a step (deadline, kNever). `now` drives the deadline.
  Outcome poll(Clock::time_point now);

  // -- observers ------------------------------------------------------------------------------

  bool has_work() const;  ///< plan() or admissions() could give something
  bool step_running() const;
  std::optional<SequenceStatus> status(SequenceId id) const;
  std::vector<SequenceStatus> all() const;
  SchedulerStats stats() const;
  /// Every invariant (credit never negative, queue order, tables). Empty when all hold.
  std::string audit() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
