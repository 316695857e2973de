#include "tests/soak/socket_client.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <utility>

namespace sluice::soak {

namespace websocket = boost::beast::websocket;
using boost::asio::ip::tcp;
using boost::system::error_code;

SocketClient::SocketClient(boost::asio::io_context& io, Handlers handlers)
    : socket_(io), timer_(io), handlers_(std::move(handlers)) {}

void SocketClient::connect(std::uint16_t port) {
  socket_.next_layer().connect({boost::asio::ip::make_address("127.0.0.1"), port});
  socket_.set_option(websocket::stream_base::decorator([](websocket::request_type& request) {
    request.set("Sec-WebSocket-Protocol", "sluice.v1");
  }));
  socket_.handshake("127.0.0.1:" + std::to_string(port), "/v1/stream");
  socket_.text(true);
  read();
}

void SocketClient::send(std::string frame) {
  if (over_) return;
  queue_.push_back(std::move(frame));
  if (queue_.size() == 1) write();
}

void SocketClient::vanish() {
  over_ = true;
  handlers_ = {};
  timer_.cancel();
  error_code ignored;
  socket_.next_layer().close(ignored);
}

void SocketClient::close() {
  if (over_) return;
  over_ = true;
  handlers_ = {};
  timer_.cancel();
  // Reads go on inside until the server's answer is there.
  socket_.async_close(websocket::close_code::normal,
                      [self = shared_from_this()](const error_code&) {});
}

void SocketClient::read() {
  if (const auto now = Clock::now(); lazy_until_ > now) {
    timer_.expires_at(lazy_until_);
    timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error && !self->over_) self->read();
    });
    return;
  }
  socket_.async_read(buffer_, [self = shared_from_this()](const error_code& error, std::size_t) {
    self->on_read(error);
  });
}

void SocketClient::on_read(const error_code& error) {
  if (over_) return;
  if (error) {
    const auto on_end = std::move(handlers_.on_end);
    vanish();
    if (on_end) on_end();
    return;
  }
  const std::string frame = boost::beast::buffers_to_string(buffer_.data());
  buffer_.consume(buffer_.size());
  handlers_.on_frame(frame);
  if (!over_) read();
}

void SocketClient::write() {
  socket_.async_write(boost::asio::buffer(queue_.front()),
                      [self = shared_from_this()](const error_code& error, std::size_t) {
                        if (error || self->over_) return;
                        self->queue_.pop_front();
                        if (!self->queue_.empty()) self->write();
                      });
}

}  // namespace sluice::soak
