// What every actor is doing at one moment, for views of the machine at work.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/types.hpp"
#include "engine/kv/kv_manager.hpp"
#include "engine/schedule/scheduler.hpp"

namespace sluice {

/// One step that has been run: which sequences took part, with how many tokens.
struct StepView {
  struct Slice {
    SequenceId sequence = 0;
    Position tokens = 0;  ///< fed
    bool draws = false;   ///< a token was drawn after the last of them
  };
  std::uint64_t number = 0;
  std::chrono::nanoseconds duration{0};
  std::vector<Slice> slices;
};

struct ActorView {
  std::string name;         ///< "supervisor", "scheduler", "kv_manager", "executor", "session"
  SequenceId sequence = 0;  ///< of a session
  std::size_t mailbox = 0;  ///< messages that wait
  bool busy = false;        ///< did not answer yet: it runs a step
};

struct StreamView {
  SequenceId sequence = 0;
  std::string held;  ///< drawn, and not shown because it may become a stop; valid UTF-8
};

/// Parts that did not answer (during a restart) are empty.
struct EngineView {
  std::int32_t block_size = 0;                ///< positions in a KV block
  std::vector<KvManager::BlockState> blocks;  ///< one for each block of the pool, group by group
  std::vector<SequenceStatus> sequences;      ///< waiting and running
  std::vector<StepView> steps;                ///< the last ones, oldest first
  std::vector<ActorView> actors;
  std::vector<StreamView> streams;  ///< of the sessions that were asked
};

}  // namespace sluice
