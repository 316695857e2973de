// What a soak runs on: an engine, and where the prompts come from.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "actors/engine.hpp"
#include "tests/soak/crowd.hpp"

namespace sluice::soak {

struct Options {
  int seconds = 120;
  std::size_t streams = 1000;
  std::uint64_t seed = 1;
  int crash_every = 10;    ///< seconds between failures of the scripted backend; 0: none
  double bound_mib = 4.0;  ///< growth of memory in the second half
  std::string model;
  bool sockets = false;  ///< through a server and WebSocket clients
};

/// What the engine runs on, and where the prompts come from.
struct Stage {
  PreparedEngine prepared;
  CrowdOptions crowd;
  std::shared_ptr<std::atomic<int>> steps_until_fatal;
};

/// A scripted backend, or the model that the options name.
Stage make_stage(const Options& options);

}  // namespace sluice::soak
