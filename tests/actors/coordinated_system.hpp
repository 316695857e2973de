// An actor system whose scheduler is the test: one thread, one message at a time, in an order
// that the test chooses, with a clock that only the test moves.
//
// Spawn executors pooled here. End what you spawned before the system goes, or its destructor
// waits for ever.
#pragma once

#include <algorithm>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/send.hpp>
#include <cstddef>
#include <random>

namespace sluice::test {

class CoordinatedSystem {
 public:
  CoordinatedSystem() : system_(config_) {}

  caf::actor_system& system() { return system_; }
  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  }

  /// Handles messages in order of arrival until none is left.
  void run() {
    while (scheduler().try_run_once()) {
    }
  }

  /// Lets a random actor among those with mail handle one message. False: nobody has any.
  template <class Random>
  bool run_any(Random& random) {
    auto& jobs = scheduler().jobs;
    if (jobs.empty()) return false;
    const auto chosen = static_cast<std::ptrdiff_t>(random() % jobs.size());
    std::rotate(jobs.begin(), jobs.begin() + chosen, jobs.begin() + chosen + 1);
    return scheduler().try_run_once();
  }

  /// Fires every pending timer, then handles what that led to, until nothing is left.
  void run_out() {
    run();
    while (scheduler().has_pending_timeout()) {
      scheduler().trigger_timeouts();
      run();
    }
  }

 private:
  struct Config : caf::actor_system_config {
    Config() { set("scheduler.policy", caf::atom("testing")); }
  };
  Config config_;
  caf::actor_system system_;
};

/// The actor behind a handle, for a look at its state between messages.
template <class Actor, class Ref>
Actor& actor_of(const Ref& ref) {
  return dynamic_cast<Actor&>(*caf::actor_cast<caf::abstract_actor*>(ref));
}

}  // namespace sluice::test
