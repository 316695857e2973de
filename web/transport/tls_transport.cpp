#include "web/transport/tls_transport.hpp"

#include <openssl/err.h>
#include <openssl/sslerr.h>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <string_view>

#include "web/transport/linger.hpp"
#include "web/transport/tls_certificate.hpp"

namespace sluice::web {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

/// For who speaks plain HTTP where TLS is spoken.
constexpr std::string_view kSpeakTls =
    "HTTP/1.1 400 Bad Request\r\nServer: sluice\r\nContent-Type: application/json\r\n"
    "Content-Length: 99\r\nConnection: close\r\n\r\n"
    R"({"error":{"code":"tls_required","message":"This port speaks TLS; use https:// or wss:// instead."}})";

bool is_plain_http(error_code error) {
  return error.category() == asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST;
}

class TlsTransport final : public Transport {
 public:
  TlsTransport(asio::ip::tcp::socket socket, std::shared_ptr<TlsCertificate> certificate)
      : certificate_(std::move(certificate)), stream_(std::move(socket), certificate_->context) {}

  asio::any_io_executor executor() override { return stream_.get_executor(); }
  bool encrypted() const override { return true; }

  void handshake(IoHandler handler) override {
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [this, handler = std::move(handler)](error_code error) mutable {
                              if (is_plain_http(error))
                                return say_speak_tls(std::move(handler), error);
                              handler(error);
                            });
  }
  void read_some(const ReadBuffers& buffers, IoHandler handler) override {
    stream_.async_read_some(buffers, std::move(handler));
  }
  void write_some(const WriteBuffers& buffers, IoHandler handler) override {
    stream_.async_write_some(buffers, std::move(handler));
  }
  /// The client learns by TLS that this is the end, and not that somebody cut the line.
  void finish(IoHandler handler) override {
    tcp().expires_after(std::chrono::seconds(2));
    stream_.async_shutdown([this, handler = std::move(handler)](error_code) mutable {
      linger(tcp(), std::move(handler));
    });
  }

  void expires_after(std::chrono::milliseconds time) override { tcp().expires_after(time); }
  void expires_never() override { tcp().expires_never(); }
  void cancel() override { tcp().cancel(); }
  void close() override { tcp().close(); }
  void set_send_buffer(int bytes) override {
    error_code ignored;
    tcp().socket().set_option(asio::socket_base::send_buffer_size(bytes), ignored);
  }

 private:
  boost::beast::tcp_stream& tcp() { return stream_.next_layer(); }

  void say_speak_tls(IoHandler handler, error_code error) {
    asio::async_write(tcp(), asio::buffer(kSpeakTls),
                      [this, handler = std::move(handler), error](error_code, std::size_t) mutable {
                        linger(tcp(),
                               IoHandler([handler = std::move(handler), error](
                                             error_code, std::size_t) mutable { handler(error); }));
                      });
  }

  const std::shared_ptr<TlsCertificate> certificate_;  // first: the stream refers to it
  boost::beast::ssl_stream<boost::beast::tcp_stream> stream_;
};

}  // namespace

std::unique_ptr<Transport> make_tls_transport(asio::ip::tcp::socket socket,
                                              std::shared_ptr<TlsCertificate> certificate) {
  return std::make_unique<TlsTransport>(std::move(socket), std::move(certificate));
}

}  // namespace sluice::web
