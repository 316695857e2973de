// One WebSocket connection that reads and writes by itself; all on its io_context's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace sluice::soak {

class SocketClient : public std::enable_shared_from_this<SocketClient> {
 public:
  struct Handlers {
    std::function<void(const std::string&)> on_frame;
    std::function<void()> on_end;  ///< once, unless vanish() or close() was called
  };

  SocketClient(boost::asio::io_context& io, Handlers handlers);

  /// Blocks until the upgrade is through; throws boost::system::system_error.
  void connect(std::uint16_t port);
  void send(std::string frame);
  /// Reads nothing for a while.
  void read_later(std::chrono::milliseconds wait) { lazy_until_ = Clock::now() + wait; }
  /// Closes the socket without a word; nothing is heard any more.
  void vanish();
  /// With the closing handshake; nothing is heard any more.
  void close();

 private:
  using Clock = std::chrono::steady_clock;

  void read();
  void on_read(const boost::system::error_code& error);
  void write();

  boost::beast::websocket::stream<boost::asio::ip::tcp::socket> socket_;
  boost::asio::steady_timer timer_;
  boost::beast::flat_buffer buffer_;
  std::deque<std::string> queue_;
  Handlers handlers_;
  Clock::time_point lazy_until_{};
  bool over_ = false;
};

}  // namespace sluice::soak
