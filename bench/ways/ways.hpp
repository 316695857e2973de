// The same requests by every way into the engine: the raw loop, callbacks, Asio, CAF. Tests compare
// what they say, the benchmark how long they take.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/engine.hpp"
#include "sluice/request.hpp"

namespace sluice::bench {

/// What became of the requests, in their order.
struct WayResult {
  std::vector<std::string> texts;
  std::int64_t tokens = 0;          ///< drawn, all together
  std::chrono::nanoseconds time{};  ///< from the first request to the last end
};

/// An engine that is ready, and one way into it.
class Way {
 public:
  virtual ~Way() = default;
  virtual std::string_view name() const = 0;
  /// Starts all requests at once and waits for all ends. Throws std::runtime_error when one ends
  /// with an error.
  virtual WayResult run(const std::vector<v0::Request>& requests) = 0;
};

/// Scheduler, KV manager and backend in the calling thread; no actors, no stop rules.
std::unique_ptr<Way> make_loop_way(PreparedEngine prepared);
std::unique_ptr<Way> make_callback_way(PreparedEngine prepared);
/// One coroutine for each request, all on one thread.
std::unique_ptr<Way> make_asio_way(PreparedEngine prepared);
/// One actor that is the sink of all.
std::unique_ptr<Way> make_caf_way(PreparedEngine prepared);

}  // namespace sluice::bench
