// Scheduler, KV manager and scripted backend, driven as an asynchronous driver would: step by
// step, with a chance to interfere between any two messages, and a check after each.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <set>

#include "engine/backend/scripted_backend.hpp"
#include "engine/schedule/scheduler.hpp"
#include "tests/engine/schedule/script.hpp"

namespace sluice::test {

struct RigOptions {
  SchedulerOptions scheduler{};
  KvManagerOptions kv{.num_blocks = 64, .block_size = 4};
  std::function<TokenId(std::span<const TokenId>)> next_token = script;
  bool only_new_grants = false;  ///< hand over each grant once instead of all of them again
};

class Rig {
 public:
  explicit Rig(RigOptions options)
      : options_(std::move(options)),
        scheduler(options_.scheduler),
        kv(options_.kv),
        backend(make_scripted_backend({.next_token = options_.next_token})) {
    backend->allocate_pool(pool_for(options_.kv));
  }

  struct Stream {
    SequenceRequest request;
    std::vector<TokenId> output;
    std::vector<Publication> progress;
    std::int64_t granted = 0;  ///< credit
    int ends_of_room = 0;
    std::string failure;
    bool expired = false;
    bool removed = false;
  };

 private:
  RigOptions options_;

 public:
  Scheduler scheduler;
  KvManager kv;
  std::unique_ptr<Backend> backend;
  std::map<SequenceId, Stream> streams;
  std::function<void()> interfere = [] {};
  StepBatch last_batch;
  Scheduler::Clock::time_point now{};

  RejectReason submit(SequenceRequest request) {
    const RejectReason reason = scheduler.submit(request, now);
    if (reason == RejectReason::kNone) {
      Stream stream;
      stream.granted = request.credit;
      stream.request = std::move(request);
      streams[stream.request.id] = std::move(stream);
    }
    return reason;
  }

  void credit(SequenceId id, std::int32_t tokens) {
    scheduler.add_credit(id, tokens);
    streams.at(id).granted += tokens;
  }

  void remove(SequenceId id) {
    if (scheduler.remove(id)) kv.release(id);
    streams.at(id).removed = true;
  }

  /// Asks for the waiting sequences; step() does it too. True when one was admitted.
  bool admit() {
    bool any = false;
    std::vector<std::pair<SequenceId, KvAdmission>> answers;
    for (const Scheduler::AdmissionWant& want : scheduler.admissions()) {
      answers.emplace_back(want.sequence,
                           kv.admit(want.sequence, want.tokens, want.salt, want.fork));
      any = any || answers.back().second.verdict == KvAdmission::Verdict::kAdmitted;
      if (answers.back().second.verdict != KvAdmission::Verdict::kAdmitted) break;
    }
    for (const auto& [id, answer] : answers) scheduler.on_admission(id, answer);
    check();
    return any;
  }

  /// One step. False when nothing could be done.
  bool step() {
    bool active = admit();
    interfere();
    const std::vector<KvWant> wants = scheduler.plan();
    interfere();
    std::vector<KvGrant> grants = ask(wants, {});
    interfere();
    for (auto victims = scheduler.preempt_for(grants); !victims.empty();
         victims = scheduler.preempt_for(grants)) {
      active = true;
      for (const SequenceId victim : victims) kv.preempt(victim);
      interfere();
      grants = ask(wants, grants);
      interfere();
    }
    last_batch = scheduler.build(grants);
    check();
    if (last_batch.slices.empty()) {
      CHECK_FALSE(scheduler.step_running());
      const Scheduler::Outcome outcome = scheduler.poll(now);
      take(outcome);
      return active || !outcome.publications.empty();
    }
    CHECK(scheduler.step_running());
    CHECK(last_batch.num_tokens() <= options_.scheduler.token_budget);
    last_batch.moves = kv.take_moves();
    const StepResult result = backend->step(last_batch);
    interfere();
    take(scheduler.complete(result));
    check();
    return true;
  }

  void check() const {
    if (const std::string fault = scheduler.audit(); !fault.empty()) FAIL(fault);
    if (const std::string fault = kv.audit(); !fault.empty()) FAIL(fault);
  }

 private:
  std::vector<KvGrant> ask(const std::vector<KvWant>& wants, const std::vector<KvGrant>& before) {
    std::vector<KvGrant> grants;
    for (const KvWant& want : wants) {
      const auto known = std::ranges::find(before, want.sequence, &KvGrant::sequence);
      if (asked_.contains(want.sequence) && !before.empty()) {
        if (known != before.end() && !options_.only_new_grants) grants.push_back(*known);
        continue;
      }
      grants.push_back(ask_for(kv, want));
    }
    if (before.empty()) asked_.clear();
    for (const KvGrant& grant : grants) {
      if (grant.granted) asked_.insert(grant.sequence);
    }
    return grants;
  }

  void take(const Scheduler::Outcome& outcome) {
    for (const Scheduler::Commit& commit : outcome.commits)
      kv.commit(commit.sequence, commit.tokens);
    for (const SequenceId id : outcome.released) kv.release(id);
    std::set<std::pair<SequenceId, Publication::Kind>> seen;
    for (const Publication& publication : outcome.publications) {
      Stream& stream = streams.at(publication.sequence);
      CHECK_FALSE(stream.removed);
      CHECK(seen.emplace(publication.sequence, publication.kind).second);
      switch (publication.kind) {
        case Publication::Kind::kPrefill:
          stream.progress.push_back(publication);
          break;
        case Publication::Kind::kToken:
          stream.output.push_back(publication.token.id);
          CHECK(static_cast<std::int64_t>(stream.output.size()) <= stream.granted);
          CHECK(stream.ends_of_room == 0);
          break;
        case Publication::Kind::kEndOfRoom:
          ++stream.ends_of_room;
          break;
        case Publication::Kind::kFailed:
          CHECK(stream.failure.empty());
          stream.failure = publication.message;
          break;
        case Publication::Kind::kExpired:
          stream.expired = true;
          break;
      }
    }
  }

  std::set<SequenceId> asked_;
};

inline SequenceRequest request(SequenceId id, std::vector<TokenId> prompt, Position max_new_tokens,
                               std::int32_t credit = 1 << 20) {
  SequenceRequest request;
  request.id = id;
  request.prompt = std::move(prompt);
  request.max_new_tokens = max_new_tokens;
  request.credit = credit;
  return request;
}

inline std::vector<TokenId> prompt_of(SequenceId seed, std::size_t count) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(1 + (seed * 131 + i * i * 7 + i) % 1000));
  }
  return tokens;
}

}  // namespace sluice::test
