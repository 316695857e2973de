// What all connections of one server share. Lives until the last of them is gone.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "actors/stream_service.hpp"
#include "web/access/address_counter.hpp"
#include "web/access/key_ring.hpp"
#include "web/connection.hpp"
#include "web/counters.hpp"
#include "web/options.hpp"
#include "web/origin_policy.hpp"
#include "web/router.hpp"
#include "web/stats_feed.hpp"
#include "web/stream_hub.hpp"
#include "web/transport/tls_transport.hpp"

namespace sluice::web {

/// A value that is replaced while others use the one before. Thread-safe.
template <class Value>
class Replaceable {
 public:
  std::shared_ptr<Value> get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  void set(std::shared_ptr<Value> value) {
    const std::lock_guard lock(mutex_);
    value_.swap(value);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Value> value_;
};

struct ServerContext {
  ServerContext(StreamService& stream_service, ServerOptions server_options)
      : service(stream_service),
        options(std::move(server_options)),
        hub(stream_service,
            {options.limits.stream_log_bytes, options.limits.max_unwatched_streams}),
        stats(stream_service, options.limits.stats_interval),
        addresses(options.limits.max_connections_per_address) {}

  /// Requests need a key.
  bool needs_keys() const { return !options.key_file.empty(); }

  StreamService& service;
  const ServerOptions options;
  StreamHub hub;
  StatsFeed stats;
  Counters counters;
  Router router;
  KeyRing keys;
  AddressCounter addresses;
  Replaceable<TlsCertificate> certificate;      ///< for new connections; none: plain TCP
  std::unique_ptr<const OriginPolicy> origins;  ///< set before the first connection
  ConnectionList connections;
  std::atomic<bool> stopping{false};              ///< no more streams
  std::atomic<bool> closing{false};               ///< no more of anything
  std::atomic<std::uint64_t> last_completion{0};  ///< numbers requests of web/openai
  boost::asio::io_context io;
};

}  // namespace sluice::web
