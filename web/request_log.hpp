// The log's lines about requests and streams (docs/operations.md). Sizes, times and ids; nothing of
// what users wrote or models answered, no headers, no keys.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "engine/stream/events.hpp"

namespace sluice::web {

struct RequestRecord {
  std::string request_id{};
  std::string method{};
  std::string path{};  ///< without the query
  int status = 0;
  std::uint64_t bytes = 0;  ///< of the response's body
  std::chrono::nanoseconds duration{0};
  std::string key_name{};  ///< who asked, where there are keys
};

/// At the level info; probes and metrics, which come all the time, at debug.
void log_request(const RequestRecord& record);

/// For `done` and `error`; other events are no end.
void log_stream_end(const std::string& request_id, const Event& event);

/// Of a stream that nobody waited for.
void log_stream_left(const std::string& request_id);

}  // namespace sluice::web
