// The web server: the page, the HTTP endpoints and the WebSocket protocol (docs/protocol.md).
//
//   sluice::web::Server server(engine, {.port = 8080});
//   server.start();                          // throws Error: port in use, address not allowed
//   ...                                      // e.g. wait for SIGTERM
//   server.stop(std::chrono::seconds(10));   // lets streams finish, closes with 1001
//
// It runs on its own threads and never waits for the engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "actors/stream_service.hpp"
#include "web/options.hpp"

namespace sluice::web {

class Server {
 public:
  /// `service` must outlive the server. Throws Error(kInvalidArgument) for settings that can't
  /// work: an address that is none, or one beyond this machine without `insecure`.
  Server(StreamService& service, ServerOptions options);
  /// stop() without grace.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Listens and starts the threads. Throws Error(kIo) when the port can't be had.
  void start();

  /// Starts the threads without a port: connections come by adopt() alone.
  void start_without_port();
  /// From any thread: takes over a connected TCP socket from which `already_read` has been read.
  /// Closes it when through with it, or at once when it can't take it.
  void adopt(int native_socket, std::string already_read);

  /// Takes no more streams and waits up to `grace` for running ones, while everything else is
  /// answered; cancels the rest (each gets its terminal event), takes no more connections, closes
  /// WebSockets with 1001 and joins the threads.
  /// Takes at most a few seconds beyond `grace`. Not to be called from the server's threads.
  void stop(std::chrono::milliseconds grace);

  /// Reads the files that the options name again: certificate, its key, API keys. New connections
  /// get the certificate, those there are go on; only WebSockets whose API key is gone are closed.
  /// Throws Error, and changes nothing, when a file is wrong.
  void reload();

  std::uint16_t port() const;  ///< the port in use, after start()
  std::string url() const;     ///< e.g. "http://127.0.0.1:8080"

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::web
