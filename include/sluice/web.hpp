// The page, the WebSocket protocol and the HTTP endpoints of `sluice serve` inside an HTTP server
// of yours, below a path of its choice (component `web`).
//
//   sluice::WebLayer web(engine, {.prefix = "/llm"});
//   // in your server, after it has read a request (Boost.Beast):
//   if (web.owns(request.target())) {
//     sluice::hand_over(web, stream, std::move(request), buffer);   // the connection is its now
//     return;
//   }
//
// A connection that is handed over never comes back: plain requests are answered with
// "Connection: close", and clients open another one for what follows. WebSockets stay.
//
// Threads. The layer serves its connections on one thread of its own, so nothing of your server's
// executors is needed, and it waits for the engine as little as yours. Every function may be called
// from any thread.
//
// Safety. Requests are checked as by `sluice serve`: a Host or Origin that is not expected is
// refused. Names that clients use for your server have to be in WebOptions::hosts (localhost and
// loopback addresses are known). Who may use the model is for your server to decide, before it
// hands a connection over. Connections with TLS can't be handed over; end TLS before.
//
// What outlives what. The engine must outlive the layer. Connections that were handed over end with
// the layer.
#pragma once

#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/engine.hpp"

namespace sluice {
namespace SLUICE_PUBLIC v0 {

/// Where and for whom.
struct WebOptions {
  std::string prefix = "/";          ///< the path below which it is, e.g. "/llm"
  std::vector<std::string> hosts{};  ///< names of your server besides the loopback ones
  std::vector<std::string>
      origins{};  ///< e.g. "https://chat.example": other pages that may connect
  std::filesystem::path static_dir{};  ///< the page comes from here instead of from the library
  std::size_t max_connections = 1024;  ///< at the same time; more are closed at once
};

/// The web layer, without a port of its own.
class WebLayer {
 public:
  /// Throws Error(kInvalidArgument) for a prefix that is no path, or names that are none.
  WebLayer(Engine& engine, const WebOptions& options);
  /// stop() without grace.
  ~WebLayer();
  WebLayer(const WebLayer&) = delete;             ///< Not copyable.
  WebLayer& operator=(const WebLayer&) = delete;  ///< Not copyable.

  /// Whether the target of a request ("/llm/v1/stream?x") lies below the prefix.
  bool owns(std::string_view target) const;
  /// The target as the layer knows it ("/v1/stream?x"). Empty for the prefix itself without a slash
  /// behind it, which is to be redirected: the page's links are relative to the folder.
  std::optional<std::string> inner_target(std::string_view target) const;

  /// Takes over a connected stream socket, from which `already_read` has been read: a request with
  /// its inner target, and whatever came behind it. Closes the socket when it is through with it,
  /// or at once when it can't take it.
  void adopt(int native_socket, std::string already_read);
  /// Sends a redirection to the prefix with a slash, and closes the socket.
  void redirect(int native_socket);

  /// Takes no more streams, waits up to `grace` for running ones, cancels the rest, closes all
  /// connections. Takes a few seconds beyond `grace` at most.
  void stop(std::chrono::milliseconds grace);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Hands the connection over on which `request` has been read, with what `buffer` holds of the
/// bytes behind it. `client` is closed afterwards, as far as this program's object is concerned.
/// To be called where `client` is used, with nothing pending on it.
inline void hand_over(WebLayer& web, boost::beast::tcp_stream& client,
                      boost::beast::http::request<boost::beast::http::string_body> request,
                      const boost::beast::flat_buffer& buffer) {
  namespace http = boost::beast::http;
  boost::system::error_code error;
  client.socket().non_blocking(false, error);
  const int socket = client.socket().release(error);
  if (error) return client.close();
  const auto target = web.inner_target({request.target().data(), request.target().size()});
  if (!target) return web.redirect(socket);
  request.target(*target);
  if (request[http::field::upgrade].empty()) request.keep_alive(false);
  std::ostringstream bytes;
  bytes << request << boost::beast::buffers_to_string(buffer.data());
  web.adopt(socket, std::move(bytes).str());
}

}  // namespace v0
}  // namespace sluice
