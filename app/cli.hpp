// The command line: parses arguments and runs one command.
#pragma once

namespace sluice::app {

/// Exit codes of the program, as documented in `sluice --help`.
enum ExitCode : int {
  kOk = 0,
  kFailed = 1,          ///< the command could not do its work; the reason is on stderr
  kUsage = 2,           ///< bad arguments; the reason is on stderr
  kFailedAtOnce = 130,  ///< a second signal cut the orderly end short
};

/// Runs `sluice ARGS...`. Never throws; everything that goes wrong ends as a sentence on stderr
/// and an exit code.
int run(int argc, char** argv) noexcept;

}  // namespace sluice::app
