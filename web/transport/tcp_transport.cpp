#include "web/transport/tcp_transport.hpp"

#include <boost/asio/post.hpp>
#include <boost/beast/core/tcp_stream.hpp>

#include "web/transport/linger.hpp"

namespace sluice::web {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(asio::ip::tcp::socket socket) : stream_(std::move(socket)) {}

  asio::any_io_executor executor() override { return stream_.get_executor(); }
  bool encrypted() const override { return false; }
  void handshake(IoHandler handler) override {
    asio::post(stream_.get_executor(),
               [handler = std::move(handler)]() mutable { handler(error_code()); });
  }
  void read_some(const ReadBuffers& buffers, IoHandler handler) override {
    stream_.async_read_some(buffers, std::move(handler));
  }
  void write_some(const WriteBuffers& buffers, IoHandler handler) override {
    stream_.async_write_some(buffers, std::move(handler));
  }
  void finish(IoHandler handler) override { linger(stream_, std::move(handler)); }

  void expires_after(std::chrono::milliseconds time) override { stream_.expires_after(time); }
  void expires_never() override { stream_.expires_never(); }
  void cancel() override { stream_.cancel(); }
  void close() override { stream_.close(); }
  void set_send_buffer(int bytes) override {
    error_code ignored;
    stream_.socket().set_option(asio::socket_base::send_buffer_size(bytes), ignored);
  }

 private:
  boost::beast::tcp_stream stream_;
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(asio::ip::tcp::socket socket) {
  return std::make_unique<TcpTransport>(std::move(socket));
}

}  // namespace sluice::web
