// Ctrl-C and SIGTERM for the commands in a terminal.
#pragma once

#include <atomic>

namespace sluice::app {

/// While alive, SIGINT (and SIGTERM) only count; what they mean is the command's decision.
/// One at a time in a process.
class InterruptCounter {
 public:
  InterruptCounter();
  ~InterruptCounter();
  InterruptCounter(const InterruptCounter&) = delete;
  InterruptCounter& operator=(const InterruptCounter&) = delete;

  int interrupts() const;   ///< SIGINT since the last reset
  bool terminated() const;  ///< SIGTERM or SIGHUP arrived
  void reset();
};

}  // namespace sluice::app
