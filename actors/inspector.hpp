// Asks every actor what it is doing, for a view of the machine at work.
//
// Idle unless somebody looks. The executor answers only between two steps, so nobody waits for
// it: while it has not answered it is reported as busy.
#pragma once

#include <memory>

#include "actors/interfaces.hpp"

namespace sluice {

struct InspectorState {
  InspectorState() = default;  // no aggregate: CAF would make one of an actor pointer
  static constexpr const char* name = "inspector";
  SupervisorRef supervisor;
  bool executor_asked = false;  ///< its answer is due
  std::size_t executor_mailbox = 0;
};

class InspectorActor final : public InspectorRef::stateful_base<InspectorState> {
 public:
  InspectorActor(caf::actor_config& config, SupervisorRef supervisor);

 protected:
  behavior_type make_behavior() override;

 private:
  using GatheringPtr = std::shared_ptr<Gathering>;

  void inspect(const GatheringPtr& gathering);
  void ask(const Crew& crew, const GatheringPtr& gathering);
  void ask_executor(const ExecutorRef& executor, const GatheringPtr& gathering);
};

}  // namespace sluice
