// Settings of the web server, with defaults that suit one person on one machine.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice::web {

/// Everything a client can use up has a limit.
struct Limits {
  std::size_t max_connections = 1024;
  /// From one IPv4 address or one /64 of IPv6; 0: as many as from all. All clients behind a proxy
  /// have one address.
  std::size_t max_connections_per_address = 0;
  std::size_t max_streams_per_connection = 64;
  std::size_t max_frame_bytes = 1 << 20;    ///< WebSocket message; more closes with 1009
  std::size_t max_header_bytes = 16 << 10;  ///< of an HTTP request; more is answered with 431
  std::size_t max_body_bytes = 1 << 20;     ///< of an HTTP request; more is answered with 413
  /// Bytes of answers waiting for one client, streams not counted (they wait in their logs): a
  /// client that provokes answers without reading them reaches it and is dropped.
  std::size_t max_queued_bytes = 4 << 20;
  /// Longest time a client may ask to have a stream kept without viewers.
  std::chrono::milliseconds max_keep{300'000};
  std::size_t stream_log_bytes = 1 << 20;   ///< of each kept stream's events, for late viewers
  std::size_t max_unwatched_streams = 256;  ///< kept without a viewer; beyond, the oldest end
  /// Kernel send buffer of a WebSocket: what a stream can be ahead of a client that reads slowly.
  int send_buffer_bytes = 64 << 10;

  std::chrono::milliseconds keep_alive_timeout{60'000};  ///< between two HTTP requests
  std::chrono::milliseconds header_timeout{10'000};      ///< to send the header of a request
  std::chrono::milliseconds body_timeout{30'000};        ///< to send the body behind it
  std::chrono::milliseconds response_timeout{30'000};    ///< to take a whole HTTP response
  std::chrono::milliseconds handshake_timeout{10'000};   ///< of TLS, and of the WebSocket upgrade
  /// A silent WebSocket is pinged after half of it, and ended after all of it. More than twice
  /// stall_timeout would be no use: a client that does not read can't answer a ping either.
  std::chrono::milliseconds idle_timeout{80'000};
  std::chrono::milliseconds stall_timeout{60'000};  ///< one frame not taken for so long: dropped
  std::chrono::milliseconds stats_interval{250};    ///< between two `stats` frames
  std::chrono::milliseconds close_timeout{3'000};   ///< closing handshake, unsent frames included
};

struct ServerOptions {
  std::string address = "127.0.0.1";  ///< IP address or "localhost"
  std::uint16_t port = 8080;          ///< 0 picks a free one
  /// The keys of those who may use the server (access/key_file.hpp); empty: everybody may.
  std::filesystem::path key_file;
  /// Listen beyond this machine without keys: whoever reaches the port may use the model.
  bool insecure = false;
  /// PEM files; both or none. With them the server speaks TLS alone.
  std::filesystem::path tls_certificate;
  std::filesystem::path tls_key;
  /// Serves the page from here instead of from the binary.
  std::filesystem::path static_dir;
  /// Host names that clients may use besides the loopback names and `address`.
  std::vector<std::string> allowed_hosts;
  /// Origins ("https://chat.example") whose pages may connect besides the server's own page.
  std::vector<std::string> allowed_origins;
  int threads = 1;
  Limits limits;
};

}  // namespace sluice::web
