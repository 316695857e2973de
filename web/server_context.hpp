// What all connections of one server share. Lives until the last of them is gone.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>

#include "actors/stream_service.hpp"
#include "web/connection.hpp"
#include "web/counters.hpp"
#include "web/options.hpp"
#include "web/origin_policy.hpp"
#include "web/router.hpp"
#include "web/stats_feed.hpp"
#include "web/stream_hub.hpp"

namespace sluice::web {

struct ServerContext {
  ServerContext(StreamService& stream_service, ServerOptions server_options)
      : service(stream_service),
        options(std::move(server_options)),
        hub(stream_service,
            {options.limits.stream_log_bytes, options.limits.max_unwatched_streams}),
        stats(stream_service, options.limits.stats_interval) {}

  StreamService& service;
  const ServerOptions options;
  StreamHub hub;
  StatsFeed stats;
  Counters counters;
  Router router;
  std::unique_ptr<const OriginPolicy> origins;  ///< set before the first connection
  ConnectionList connections;
  std::atomic<bool> stopping{false};
  std::atomic<std::uint64_t> last_completion{0};  ///< numbers requests of web/openai
  boost::asio::io_context io;
};

}  // namespace sluice::web
