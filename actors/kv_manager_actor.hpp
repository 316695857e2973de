// The KV manager as an actor: block accounting, and blocks that come back whatever happens.
//
// It monitors the session of every open sequence. When one dies, however it dies, its blocks are
// free at once, also while the scheduler is down or has not noticed yet. A step that still
// writes to them does no harm: only the next reservation hands blocks out, and that comes after
// the step; reservations in two rounds are checked for sequences that went in between.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "actors/interfaces.hpp"
#include "actors/stats_board.hpp"

namespace sluice {

struct KvManagerParts {
  KvManagerOptions options;
  std::shared_ptr<StatsBoard> board;
};

struct KvManagerState {
  static constexpr const char* name = "kv_manager";
  std::unique_ptr<KvManager> kv;
  std::shared_ptr<StatsBoard> board;
  std::map<SequenceId, caf::actor_addr> session_of;
  std::map<caf::actor_addr, SequenceId> sequence_of;
};

class KvManagerActor final : public KvManagerRef::stateful_base<KvManagerState> {
 public:
  KvManagerActor(caf::actor_config& config, KvManagerParts parts);

 protected:
  behavior_type make_behavior() override;

 private:
  KvView view();
  AdmitAnswer admit(const AdmitRequest& request);
  ReserveAnswer reserve(const ReserveRequest& request);
  void commit(const CommitNotice& notice);
  void release(SequenceId sequence);
  void reset();
  void on_session_down(const caf::actor_addr& session);

  void watch(SequenceId sequence, const SessionRef& session);
  void unwatch(SequenceId sequence);
  /// After every change: numbers to the board; in debug builds the whole account is checked.
  void changed();
};

}  // namespace sluice
