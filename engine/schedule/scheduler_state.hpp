// The scheduler's state, shared by the files that implement it by subject:
// scheduler.cpp (requests, queue, observers), scheduler_step.cpp (plan, preempt, build),
// scheduler_complete.cpp (results).
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/schedule/scheduler.hpp"
#include "engine/schedule/sequence.hpp"
#include "engine/schedule/step_plan.hpp"
#include "engine/schedule/waiting_queue.hpp"

namespace sluice {

struct Scheduler::Impl {
  explicit Impl(const SchedulerOptions& o) : options(o), waiting(o.max_passes) {}

  Sequence* find(SequenceId id) const {
    const auto found = sequences.find(id);
    return found == sequences.end() ? nullptr : found->second.get();
  }
  /// The running sequence that a slice was planned for; null when it has gone since.
  Sequence* find_running(const PlannedSlice& slice) const {
    Sequence* sequence = find(slice.id);
    const bool same = sequence != nullptr && sequence->arrival == slice.arrival;
    return same && sequence->running ? sequence : nullptr;
  }

  /// The waiting sequences to ask for next; `use` hears each, and which sample of its prompt to
  /// share blocks with (or null).
  template <class Use>
  void for_each_candidate(Use use) const {
    auto places =
        static_cast<std::int64_t>(options.max_running) - static_cast<std::int64_t>(running.size());
    if (admission_blocked) return;
    std::vector<const Sequence*> first_samples;
    for (const Sequence* sequence : waiting.entries()) {
      if (places <= 0) return;
      if (!wants_admission(*sequence)) continue;
      const Sequence* sample = nullptr;
      if (sequence->sample_group != 0) {
        const auto same = [&](const Sequence* other) { return same_prompt(*other, *sequence); };
        if (std::ranges::any_of(first_samples, same)) continue;  // it comes after that one
        const auto found = std::ranges::find_if(running, same);
        sample = found == running.end() ? nullptr : *found;
        if (sample != nullptr && sample->computed < sample->num_prompt - 1) continue;
        if (sample == nullptr) first_samples.push_back(sequence);
      }
      use(*sequence, sample);
      --places;
    }
  }

  /// Samples of one prompt. The group's number alone is anybody's word.
  static bool same_prompt(const Sequence& a, const Sequence& b) {
    return a.sample_group == b.sample_group && a.num_prompt == b.num_prompt && a.salt == b.salt &&
           std::equal(a.tokens.begin(), a.tokens.begin() + a.num_prompt, b.tokens.begin());
  }

  /// A waiting sequence that could not draw lets others pass.
  static bool wants_admission(const Sequence& sequence) { return sequence.may_draw(); }

  /// Something happened that may let a step or an admission succeed that failed before.
  void wake() {
    step_stalled = admission_blocked = false;
    ++changes;
  }

  void start(Sequence& sequence, const KvAdmission& admission);
  void stop_running(Sequence& sequence);
  void preempt(Sequence& sequence);
  void erase(Sequence& sequence);
  void end_of_room(Sequence& sequence);
  void fail(Sequence& sequence, std::string message, Publication::Kind kind, Outcome& outcome);
  void apply(const PlannedSlice& slice, const SliceResult& result, Outcome& outcome);
  void take_token(Sequence& sequence, const SampledToken& token, Outcome& outcome);
  /// Notes what was granted, once for each planned slice, and puts the blocks into the tables.
  void take_grants(std::span<const KvGrant> grants);
  bool idle_for_long(const Sequence& sequence) const;
  void take_pending(Outcome& outcome);

  SchedulerOptions options;
  SchedulerStats stats;
  std::map<SequenceId, std::unique_ptr<Sequence>> sequences;
  std::vector<Sequence*> running;  ///< in order of arrival
  WaitingQueue waiting;
  std::uint64_t arrivals = 0;

  std::vector<PlannedSlice> planned;              ///< between plan() and build()
  std::optional<std::vector<PlannedSlice>> step;  ///< between build() and complete()

  Outcome pending;  ///< arose outside a step
  // Answers of the KV manager take time. A refusal counts only when nothing has changed since
  // the question: blocks may have come back meanwhile.
  std::uint64_t changes = 0;
  std::uint64_t changes_at_plan = 0;
  std::uint64_t changes_at_admissions = 0;
  std::uint64_t returns = 0;  ///< times that a running sequence gave its blocks back
  std::uint64_t returns_at_plan = 0;
  bool step_stalled = false;       ///< the last plan got no blocks and nothing has changed since
  bool admission_blocked = false;  ///< likewise for the head of the queue
  Clock::time_point last_poll;
  Clock::time_point last_retry;
};

}  // namespace sluice
