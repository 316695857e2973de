// What the web server counts about itself. Written by many threads, read for the metrics.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sluice::web {

struct Counters {
  std::atomic<std::int64_t> connections{0};   ///< open now, HTTP and WebSocket
  std::atomic<std::int64_t> websockets{0};    ///< of these, upgraded
  std::atomic<std::int64_t> queued_bytes{0};  ///< waiting for clients now
  std::atomic<std::uint64_t> http_requests{0};
  std::array<std::atomic<std::uint64_t>, 5> http_responses_of{};  ///< 1xx to 5xx
  std::atomic<std::uint64_t> frames_received{0};
  std::atomic<std::uint64_t> frames_sent{0};
  std::atomic<std::uint64_t> bytes_sent{0};        ///< in WebSocket frames
  std::atomic<std::uint64_t> clients_dropped{0};   ///< for not taking what was sent
  std::atomic<std::uint64_t> requests_refused{0};  ///< by Host, Origin, key or a limit

  std::atomic<std::uint64_t>& http_responses(int status) {
    return http_responses_of[static_cast<std::size_t>(std::clamp(status / 100, 1, 5) - 1)];
  }
};

}  // namespace sluice::web
