#include "web/listener.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <utility>

#include "engine/base/error.hpp"
#include "web/http_session.hpp"
#include "web/transport/tcp_transport.hpp"
#include "web/web_log.hpp"

namespace sluice::web {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

/// When the process has no file descriptor left, asking again at once would only burn time.
constexpr std::chrono::milliseconds kRetryDelay{100};
constexpr std::size_t kMostRefusals = 64;  // being told at the same time

[[noreturn]] void fail_to_listen(const tcp::endpoint& endpoint, error_code error) {
  const std::string address = endpoint.address().to_string();
  if (error == asio::error::address_in_use) {
    throw Error(ErrorCode::kIo,
                fmt::format("Port {} on {} is in use; end the program that has it, or choose "
                            "another with --port (0 picks a free one).",
                            endpoint.port(), address));
  }
  if (error == asio::error::access_denied) {
    throw Error(ErrorCode::kIo, fmt::format("Port {} needs rights that this program does not have; "
                                            "choose one from 1024 on with --port.",
                                            endpoint.port()));
  }
  throw Error(ErrorCode::kIo,
              fmt::format("Can't listen on {} port {}: {}; check --address and --port.", address,
                          endpoint.port(), error.message()));
}

}  // namespace

Listener::Listener(std::shared_ptr<ServerContext> context, const tcp::endpoint& endpoint)
    : context_(std::move(context)),
      acceptor_(asio::make_strand(context_->io)),
      retry_(acceptor_.get_executor()) {
  error_code error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) fail_to_listen(endpoint, error);
  port_ = acceptor_.local_endpoint().port();
}

void Listener::start() {
  asio::post(acceptor_.get_executor(), [self = shared_from_this()] { self->do_accept(); });
}

void Listener::stop() {
  asio::post(acceptor_.get_executor(), [self = shared_from_this()] {
    error_code ignored;
    self->acceptor_.close(ignored);
    self->retry_.cancel();
  });
}

void Listener::do_accept() {
  if (!acceptor_.is_open()) return;
  acceptor_.async_accept(asio::make_strand(context_->io),
                         [self = shared_from_this()](error_code error, tcp::socket socket) {
                           self->on_accept(error, std::move(socket));
                         });
}

void Listener::on_accept(error_code error, tcp::socket socket) {
  if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
  if (error) {
    web_log()->warn("A connection could not be accepted: {}.", error.message());
    retry_.expires_after(kRetryDelay);
    retry_.async_wait([self = shared_from_this()](error_code) { self->do_accept(); });
    return;
  }
  // A token is a small packet; waiting to fill a larger one would delay it.
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  serve(std::move(socket));
  do_accept();
}

/// With too many connections the client is told so, as long as there are not far too many: whoever
/// is told holds a connection as well. Over TLS it would cost more to say than to serve.
void Listener::serve(tcp::socket socket) {
  const std::size_t most = context_->options.limits.max_connections;
  const std::size_t now = context_->connections.size();
  error_code error;
  const auto peer = socket.remote_endpoint(error);
  if (error) return;  // gone already
  std::shared_ptr<void> place = context_->addresses.enter(peer.address());
  const auto certificate = context_->certificate.get();
  if (now < most && place) {
    start_http_session(context_,
                       ClientStream(certificate ? make_tls_transport(std::move(socket), certificate)
                                                : make_tcp_transport(std::move(socket)),
                                    std::move(place)));
    return;
  }
  ++context_->counters.requests_refused;
  if (certificate || now >= most + kMostRefusals) return;
  refuse_connection(context_, ClientStream(make_tcp_transport(std::move(socket))),
                    place ? Crowd::kServer : Crowd::kAddress);
}

}  // namespace sluice::web
