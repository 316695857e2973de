// Accepts connections.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>

#include "web/server_context.hpp"

namespace sluice::web {

class Listener : public std::enable_shared_from_this<Listener> {
 public:
  /// Binds and listens. Throws Error(kIo) when the port can't be had, saying what to do.
  Listener(std::shared_ptr<ServerContext> context, const boost::asio::ip::tcp::endpoint& endpoint);

  std::uint16_t port() const { return port_; }
  /// Starts to accept.
  void start();
  /// From any thread: takes no more.
  void stop();

 private:
  void do_accept();
  void on_accept(boost::system::error_code error, boost::asio::ip::tcp::socket socket);
  void serve(boost::asio::ip::tcp::socket socket);

  std::shared_ptr<ServerContext> context_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_;
  std::uint16_t port_ = 0;
};

}  // namespace sluice::web
