#include "bench/server/stream_client.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>
#include <memory>
#include <string_view>

#include "engine/base/error.hpp"

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPatienceMs = 60'000;

class Socket {
 public:
  explicit Socket(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int yes = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    // What the sockets interface asks for.
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast)
    if (fd_ < 0 || ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      close();
      throw Error(ErrorCode::kIo, fmt::format("The server on port {} takes no connection.", port));
    }
  }
  ~Socket() { close(); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const { return fd_; }
  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) throw Error(ErrorCode::kIo, "The server closed a connection.");
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  /// Appends what is there; false at the end of the connection.
  bool receive(std::string& buffer) const {
    char bytes[65536];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    buffer.append(bytes, static_cast<std::size_t>(n));
    return true;
  }

 private:
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  int fd_;
};

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos;
       at = text.find(what, at + what.size()))
    ++n;
  return n;
}

/// A text frame as RFC 6455 wants it from a client; the mask is 0, which changes no byte.
std::string masked_frame(std::string_view text) {
  std::string frame = "\x81";
  if (text.size() < 126) {
    frame += static_cast<char>(0x80U | text.size());
  } else {
    frame += static_cast<char>(0x80U | 126U);
    frame += static_cast<char>(text.size() >> 8U);
    frame += static_cast<char>(text.size() & 0xFFU);
  }
  frame.append(4, '\0');
  return frame.append(text);
}

/// One connection with one stream.
class Stream {
 public:
  explicit Stream(std::uint16_t port) : socket_(port) {
    socket_.send(
        fmt::format("GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nUpgrade: websocket\r\n"
                    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                    "Sec-WebSocket-Key: c2x1aWNlIGJlbmNobWFyayE=\r\n"
                    "Sec-WebSocket-Protocol: sluice.v1\r\n\r\n",
                    port));
    std::size_t end = std::string::npos;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos)
      if (!socket_.receive(buffer_))
        throw Error(ErrorCode::kIo, "The server ended a connection before its upgrade.");
    if (!buffer_.starts_with("HTTP/1.1 101"))
      throw Error(ErrorCode::kIo, fmt::format("The server refused a WebSocket: {}",
                                              buffer_.substr(0, buffer_.find('\r'))));
    buffer_.erase(0, end + 4);
  }

  int fd() const { return socket_.fd(); }
  bool done() const { return done_; }
  void ask(std::string_view request) {
    socket_.send(masked_frame(request));
    record.asked = Clock::now();
  }
  /// Takes what has come.
  void read() {
    if (!socket_.receive(buffer_)) {
      record.failure = "the connection ended early";
      done_ = true;
      return;
    }
    const Clock::time_point now = Clock::now();
    std::size_t at = 0;
    while (!done_) {
      const std::size_t length = frame_at(at, now);
      if (length == 0) break;
      at += length;
    }
    buffer_.erase(0, at);
  }

  StreamRecord record;

 private:
  /// Looks at the frame that begins at `at`; gives its length, 0 when it is not all there.
  std::size_t frame_at(std::size_t at, Clock::time_point now) {
    const auto byte = [&](std::size_t i) {
      return static_cast<std::size_t>(static_cast<unsigned char>(buffer_[at + i]));
    };
    const std::size_t have = buffer_.size() - at;
    if (have < 2) return 0;
    std::size_t header = 2;
    std::size_t size = byte(1) & 127U;
    if (size >= 126) {
      const std::size_t bytes = size == 126 ? 2 : 8;
      header += bytes;
      if (have < header) return 0;
      size = 0;
      for (std::size_t i = 0; i < bytes; ++i) size = size << 8U | byte(2 + i);
    }
    if (have < header + size) return 0;
    if ((byte(0) & 15U) == 1) look_at(std::string_view(buffer_).substr(at + header, size), now);
    return header + size;
  }

  void look_at(std::string_view text, Clock::time_point now) {
    ++record.messages;
    const auto is = [&](std::string_view type) {
      return text.starts_with(fmt::format(R"({{"type":"{}")", type));
    };
    if (text.starts_with(R"({"type":"token")")) {
      record.frames.push_back(now);
      record.tokens += count(text, R"({"id":)");
    } else if (is("done") || is("error")) {
      done_ = true;
      if (is("error")) record.failure = text;
    }
  }

  Socket socket_;
  std::string buffer_;
  bool done_ = false;
};

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

ClientRun run_streams(std::uint16_t port, const std::vector<std::string>& requests) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (std::size_t i = 0; i < requests.size(); ++i)
    streams.push_back(std::make_unique<Stream>(port));
  const double cpu = thread_seconds();
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < requests.size(); ++i) streams[i]->ask(requests[i]);
  std::vector<pollfd> waiting;
  std::vector<Stream*> who;
  for (;;) {
    waiting.clear();
    who.clear();
    for (const auto& stream : streams) {
      if (stream->done()) continue;
      waiting.push_back({stream->fd(), POLLIN, 0});
      who.push_back(stream.get());
    }
    if (waiting.empty()) break;
    if (::poll(waiting.data(), waiting.size(), kPatienceMs) <= 0)
      throw Error(ErrorCode::kIo, "The server sent nothing for a minute.");
    for (std::size_t i = 0; i < waiting.size(); ++i)
      if (waiting[i].revents != 0) who[i]->read();
  }
  ClientRun run;
  run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  run.cpu_seconds = thread_seconds() - cpu;
  for (const auto& stream : streams) run.streams.push_back(std::move(stream->record));
  return run;
}

double time_request(std::uint16_t port, const std::string& target) {
  try {
    const Clock::time_point start = Clock::now();
    const Socket socket(port);
    socket.send(fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n",
                            target, port));
    std::string answer;
    while (socket.receive(answer)) {
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return answer.starts_with("HTTP/1.1 200") ? seconds : -1.0;
  } catch (const Error&) {
    return -1.0;
  }
}

}  // namespace sluice::bench
