// Clients for the server's tests: WebSocket by Beast, HTTP by hand. Blocking, with a time limit
// that only a failing test reaches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::test {

struct UpgradeOptions {
  std::string path = "/v1/stream";
  std::string host;    ///< empty: the real one
  std::string origin;  ///< empty: none
  std::string protocol = "sluice.v1";
  std::string key;               ///< for the Authorization header; empty: none
  int receive_buffer_bytes = 0;  ///< 0: the system's
};

class WsClient {
 public:
  /// Throws std::runtime_error when the upgrade fails; status() of the answer is in its text.
  explicit WsClient(std::uint16_t port, const UpgradeOptions& options = {});
  ~WsClient();
  WsClient(WsClient&&) noexcept;

  std::string selected_protocol() const;
  void send(std::string_view text);
  void send_binary(std::string_view bytes);
  /// The next message; empty when the connection has ended.
  std::optional<std::string> receive();
  /// After receive() gave nothing: the code of the close frame, 0 without one.
  int close_code() const;
  /// Pings received so far; may be asked while another thread receives.
  int pings() const;
  std::string close_reason() const;
  /// Closing handshake.
  void close();
  /// Closes the socket without a word.
  void vanish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A plain socket that sends what it is given and vanishes with its destruction.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer_bytes = 0);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  void send(const std::string& bytes) const;
  /// Reads until `end` has come, or the connection has ended (also by a reset). Throws
  /// std::runtime_error when neither happens in time.
  std::string receive(const std::string& end = {}) const;

 private:
  int socket_;
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
};

/// Sends the bytes as they are and reads until the server closes. One answer for each entry of
/// `heads`: true where the request was HEAD.
std::vector<HttpAnswer> http_exchange(std::uint16_t port, const std::string& bytes,
                                      const std::vector<bool>& heads = {false});

/// One request with Host and Connection: close. `extra` are header lines with CRLF.
HttpAnswer http_request(std::uint16_t port, const std::string& method, const std::string& target,
                        const std::string& extra = {}, const std::string& body = {});

}  // namespace sluice::test
