// The scheduler as an actor: drives one step after the other and never waits for anything.
//
//   idle -> admitting -> reserving -> running -> idle
//
// Every state but idle waits for one answer (the KV manager's or the executor's); whatever comes
// in between (submissions, credit, removals) changes the plain Scheduler at once and takes part
// in the next step. After a result the next step's reservation goes out first and the
// publications second, so that the executor idles as little as possible; sequences with credit
// left do not wait for their sessions.
//
// An executor that fails ends this actor's work: it stays in `broken` until the supervisor has
// replaced both.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "actors/interfaces.hpp"
#include "actors/stats_board.hpp"
#include "actors/step_recorder.hpp"

namespace sluice {

struct SchedulerParts {
  Epoch epoch = 1;
  SchedulerOptions options;
  KvManagerRef kv;
  ExecutorRef executor;
  std::shared_ptr<StatsBoard> board;
};

enum class SchedulerStage { kIdle, kAdmitting, kReserving, kRunning, kBroken };

struct SchedulerState {
  static constexpr const char* name = "scheduler";
  SchedulerParts parts;
  std::unique_ptr<Scheduler> scheduler;
  SchedulerStage stage = SchedulerStage::kIdle;
  std::map<SequenceId, SessionRef> sessions;
  std::map<caf::actor_addr, SequenceId> sequence_of;
  std::vector<KvGrant> grants;            ///< of the step being prepared
  std::map<SequenceId, Position> wanted;  ///< likewise: positions asked for
  std::vector<BlockMove> moves;           ///< for the next step that runs
  std::vector<Publication> unpublished;   ///< sent when the handler ends
  SequenceId refused_head = 0;            ///< first in the queue, not admitted last time ...
  bool released_since = false;            ///< ... and whether blocks came back since
  bool made_room = false;                 ///< something was preempted for the step being prepared
  bool timer_pending = false;
  Position batch_tokens = 0;        ///< of the step that runs
  std::size_t batch_sequences = 0;  ///< likewise
  StepRecorder recorder;            ///< idle unless somebody looks
};

class SchedulerActor final : public SchedulerRef::stateful_base<SchedulerState> {
 public:
  SchedulerActor(caf::actor_config& config, SchedulerParts parts);

 protected:
  behavior_type make_behavior() override;

 private:
  RejectReason submit(Submission& submission);
  void forget(SequenceId sequence);  ///< in any phase; frees its blocks
  void unwatch(SequenceId sequence);

  // The step, in order.
  void advance();  ///< starts the next step if none is being prepared and there is work
  void admit();
  void on_admitted(const AdmitAnswer& answer);
  void plan();
  void reserve(ReserveRequest request);
  void on_reserved(ReserveAnswer& answer);
  void decide();
  void ask_again(std::vector<SequenceId> victims);
  void run();
  void on_result(const StepResult& result);
  void collect(Scheduler::Outcome outcome);
  void publish();

  void broken(const caf::error& reason);
  void arm_timer();
  void report();
};

}  // namespace sluice
