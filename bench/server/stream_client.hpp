// A client of the WebSocket protocol that costs little: many connections on one thread, frames
// looked at and not parsed, so that what is measured is the server.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::bench {

/// What one stream saw.
struct StreamRecord {
  std::chrono::steady_clock::time_point asked{};
  std::vector<std::chrono::steady_clock::time_point> frames;  ///< when each token frame came
  std::size_t tokens = 0;
  std::size_t messages = 0;  ///< frames of any kind
  std::string failure;       ///< an `error` frame or a lost connection; empty: none
};

struct ClientRun {
  std::vector<StreamRecord> streams;
  double seconds = 0;      ///< from the first request to the last end
  double cpu_seconds = 0;  ///< of the client's thread
};

/// Opens a connection for each text of `requests` (a `generate` frame with id "a"), sends all of
/// them and reads every stream to its end, on the calling thread. Throws Error(kIo) when a
/// connection can't be made.
ClientRun run_streams(std::uint16_t port, const std::vector<std::string>& requests);

/// Seconds that GET `target` took, on a connection of its own; negative when it failed.
double time_request(std::uint16_t port, const std::string& target);

}  // namespace sluice::bench
