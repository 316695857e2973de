// Starts KV manager, executor and scheduler, watches them and every session, replaces what
// failed, and takes everything down in order.
//
//   starting -> serving -> stopping children -> (pause) -> starting ...
//                                            -> exhausted: every stream ends with backend_failed
//
// A failure of any of the three takes scheduler and executor down together: their states belong
// together. When both are gone (a running step ends first, so that two backends never hold
// memory at the same time) the KV accounting is reset and a new pair starts under the next
// epoch. Sessions are told where it is and continue with the tokens they have.
//
// Worked example with the default policy: three failures within a minute are repaired, after
// pauses of 50, 100 and 200 ms; the fourth within that minute is final.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "actors/engine.hpp"
#include "actors/executor_actor.hpp"
#include "actors/interfaces.hpp"
#include "actors/stats_board.hpp"

namespace sluice {

struct SupervisorParts {
  ExecutorParts executor;
  SchedulerOptions scheduler;
  KvManagerOptions kv;
  RestartPolicy policy;
  std::shared_ptr<StatsBoard> board;
  bool detached_executor = true;  ///< false only under a test's own scheduler
};

enum class ServicePhase { kNew, kStarting, kServing, kClearing, kPausing, kExhausted };
enum class StopPhase { kNone, kGrace, kCancelled, kExit, kKill, kChildren, kDone };

struct SupervisorState {
  using Clock = std::chrono::steady_clock;
  static constexpr const char* name = "supervisor";

  ~SupervisorState();

  SupervisorParts parts;
  ServicePhase phase = ServicePhase::kNew;
  Epoch epoch = 0;
  KvManagerRef kv;
  ExecutorRef executor;
  SchedulerRef scheduler;
  std::string failure;  ///< of the last child that failed
  std::deque<Clock::time_point> restarts;
  caf::typed_response_promise<BackendReport> start_promise;

  std::map<SequenceId, SessionRef> sessions;
  std::map<caf::actor_addr, SequenceId> sequence_of;

  StopPhase stop = StopPhase::kNone;
  caf::typed_response_promise<stop_atom> stop_promise;

  // Timers are numbered; one that was overtaken by events is ignored.
  std::uint64_t timers = 0;
  std::uint64_t restart_timer = 0;
  std::uint64_t stop_timer = 0;
};

class SupervisorActor final : public SupervisorRef::stateful_base<SupervisorState> {
 public:
  SupervisorActor(caf::actor_config& config, SupervisorParts parts);

 protected:
  behavior_type make_behavior() override;

 private:
  void join(SequenceId sequence, const SessionRef& session);
  void on_down(const caf::down_msg& down);

  // Starting and restarting.
  void start_children();
  void on_prepared(const BackendReport& report);
  void on_failure(const std::string& what);
  void on_cleared();
  void give_up();
  bool child_down(const caf::down_msg& down);

  // Stopping.
  caf::typed_response_promise<stop_atom> begin_stop(std::chrono::milliseconds grace);
  void next_stop_phase();
  void stop_children();

  std::uint64_t set_timer(std::chrono::milliseconds wait);
  void on_timer(std::uint64_t number);
};

}  // namespace sluice
