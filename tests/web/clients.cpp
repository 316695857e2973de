#include "tests/web/clients.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <cerrno>
#include <stdexcept>

namespace sluice::test {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using asio::ip::tcp;

constexpr time_t kPatienceSeconds = 20;

void limit_waiting(int socket) {
  const timeval limit{kPatienceSeconds, 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

}  // namespace

// -- WebSocket ----------------------------------------------------------------------------------

struct WsClient::Impl {
  asio::io_context io;
  websocket::stream<tcp::socket> ws{io};
  websocket::response_type response;
  std::atomic<int> pings{0};
};

WsClient::WsClient(std::uint16_t port, const UpgradeOptions& options)
    : impl_(std::make_unique<Impl>()) {
  tcp::socket& socket = impl_->ws.next_layer();
  socket.open(tcp::v4());
  if (options.receive_buffer_bytes > 0) {
    socket.set_option(asio::socket_base::receive_buffer_size(options.receive_buffer_bytes));
  }
  socket.connect({asio::ip::make_address("127.0.0.1"), port});
  limit_waiting(socket.native_handle());
  impl_->ws.set_option(websocket::stream_base::decorator([options](websocket::request_type& r) {
    if (!options.origin.empty()) r.set("Origin", options.origin);
    if (!options.protocol.empty()) r.set("Sec-WebSocket-Protocol", options.protocol);
    if (!options.key.empty()) r.set("Authorization", "Bearer " + options.key);
  }));
  impl_->ws.control_callback([impl = impl_.get()](websocket::frame_type type, beast::string_view) {
    if (type == websocket::frame_type::ping) ++impl->pings;
  });
  const std::string host =
      options.host.empty() ? "127.0.0.1:" + std::to_string(port) : options.host;
  boost::system::error_code error;
  impl_->ws.handshake(impl_->response, host, options.path, error);
  if (error) {
    throw std::runtime_error("upgrade refused with " +
                             std::to_string(impl_->response.result_int()) + ": " +
                             impl_->response.body());
  }
}

WsClient::~WsClient() {
  vanish();
}

std::string WsClient::selected_protocol() const {
  return std::string(impl_->response["Sec-WebSocket-Protocol"]);
}

void WsClient::send(std::string_view text) {
  impl_->ws.text(true);
  impl_->ws.write(asio::buffer(text.data(), text.size()));
}

void WsClient::send_binary(std::string_view bytes) {
  impl_->ws.binary(true);
  impl_->ws.write(asio::buffer(bytes.data(), bytes.size()));
}

std::optional<std::string> WsClient::receive() {
  beast::flat_buffer buffer;
  boost::system::error_code error;
  impl_->ws.read(buffer, error);
  if (error) return std::nullopt;
  return beast::buffers_to_string(buffer.data());
}

int WsClient::close_code() const {
  return impl_->ws.reason().code;
}

int WsClient::pings() const {
  return impl_->pings;
}

std::string WsClient::close_reason() const {
  const auto& reason = impl_->ws.reason().reason;
  return {reason.data(), reason.size()};
}

void WsClient::close() {
  boost::system::error_code ignored;
  impl_->ws.close(websocket::close_code::normal, ignored);
}

void WsClient::vanish() {
  boost::system::error_code ignored;
  impl_->ws.next_layer().close(ignored);
}

// -- plain ----------------------------------------------------------------------------------------

RawClient::RawClient(std::uint16_t port, int receive_buffer_bytes)
    : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  limit_waiting(socket_);
  if (receive_buffer_bytes > 0) {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error("connection refused");
  }
}

RawClient::~RawClient() {
  ::close(socket_);
}

void RawClient::send(const std::string& bytes) const {
  if (::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("the socket takes nothing");
  }
}

std::string RawClient::receive(const std::string& end) const {
  std::string received;
  char buffer[4096];
  while (end.empty() || received.find(end) == std::string::npos) {
    const ssize_t n = recv(socket_, buffer, sizeof buffer, 0);
    if (n < 0 && errno != ECONNRESET) throw std::runtime_error("the server did not close in time");
    if (n <= 0) break;
    received.append(buffer, static_cast<std::size_t>(n));
  }
  return received;
}

// -- HTTP ---------------------------------------------------------------------------------------

namespace {

std::string send_and_read_all(std::uint16_t port, const std::string& bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  limit_waiting(fd);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    ::close(fd);
    throw std::runtime_error("connection refused");
  }
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;  // the server may answer and close before it has read everything
    sent += static_cast<std::size_t>(n);
  }
  std::string received;
  char buffer[8192];
  ssize_t n = 0;
  while ((n = recv(fd, buffer, sizeof buffer, 0)) > 0) {
    received.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(fd);
  if (n < 0) throw std::runtime_error("the server did not close in time, or reset");
  return received;
}

/// The chunks of a body, joined; takes them away.
std::string take_chunks(std::string& text) {
  std::string body;
  for (std::size_t size = 1; size > 0;) {
    const std::size_t line = text.find("\r\n");
    if (line == std::string::npos) throw std::runtime_error("a chunk without its size: " + text);
    size = std::stoul(text.substr(0, line), nullptr, 16);
    if (text.substr(line + 2 + size, 2) != "\r\n") throw std::runtime_error("a chunk without end");
    body += text.substr(line + 2, size);
    text.erase(0, line + 2 + size + 2);
  }
  return body;
}

HttpAnswer take_answer(std::string& text, bool head) {
  const std::size_t end = text.find("\r\n\r\n");
  if (end == std::string::npos) throw std::runtime_error("no complete answer: " + text);
  HttpAnswer answer;
  answer.status = std::stoi(text.substr(text.find(' ') + 1));
  std::size_t line = text.find("\r\n") + 2;
  while (line < end + 2) {
    const std::size_t colon = text.find(':', line);
    const std::size_t line_end = text.find("\r\n", line);
    std::string name = text.substr(line, colon - line);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    answer.headers[name] = text.substr(colon + 2, line_end - colon - 2);
    line = line_end + 2;
  }
  if (answer.headers.count("transfer-encoding") > 0) {
    text.erase(0, end + 4);
    answer.body = take_chunks(text);
    return answer;
  }
  const auto length = answer.headers.find("content-length");
  const std::size_t size = head || length == answer.headers.end() ? 0 : std::stoul(length->second);
  answer.body = text.substr(end + 4, size);
  text.erase(0, end + 4 + size);
  return answer;
}

}  // namespace

std::vector<HttpAnswer> http_exchange(std::uint16_t port, const std::string& bytes,
                                      const std::vector<bool>& heads) {
  std::string received = send_and_read_all(port, bytes);
  std::vector<HttpAnswer> answers;
  for (const bool head : heads) answers.push_back(take_answer(received, head));
  if (!received.empty()) throw std::runtime_error("unexpected bytes: " + received);
  return answers;
}

HttpAnswer http_request(std::uint16_t port, const std::string& method, const std::string& target,
                        const std::string& extra, const std::string& body) {
  std::string request = method + " " + target + " HTTP/1.1\r\nConnection: close\r\n" + extra;
  if (extra.find("Host:") == std::string::npos) {
    request += "Host: 127.0.0.1:" + std::to_string(port) + "\r\n";
  }
  if (!body.empty()) request += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return http_exchange(port, request + "\r\n" + body, {method == "HEAD"}).front();
}

}  // namespace sluice::test
