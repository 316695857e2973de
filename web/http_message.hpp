// HTTP requests and responses as handlers see them: plain values, no Beast.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::web {

struct HttpRequest {
  std::string method;  ///< "GET"
  std::string path;    ///< percent-decoded, begins with '/'
  std::string query;   ///< after '?', as sent
  std::string id;      ///< what logs call it; see request_id.hpp
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case
  unsigned version = 11;                                     ///< of HTTP: 10 or 11
  bool keep_alive = true;  ///< the client wants to send more on this connection

  /// The first header of that (lower case) name; empty when there is none.
  std::string_view header(std::string_view name) const;
  std::size_t count(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  /// Instead of `body`: bytes that live as long as the program, sent without a copy.
  std::string_view fixed_body;
  bool close = false;  ///< end the connection after it

  std::string_view bytes() const {
    return fixed_body.empty() ? std::string_view(body) : fixed_body;
  }
};

/// {"error":{"code":...,"message":...}}
HttpResponse error_response(int status, std::string_view code, std::string_view message);

/// Headers that every response carries: what a page may load and who may frame it.
const std::vector<std::pair<std::string, std::string>>& security_headers();

/// ASCII letters in lower case, everything else as it is.
std::string lower_case(std::string_view text);

struct Target {
  std::string path;  ///< percent-decoded
  std::string query;
};

/// Splits a request target ("/a%20b?x=1", or with "http://host" before it). Empty when it is
/// malformed: no leading '/', a bad escape, or a zero byte.
std::optional<Target> parse_target(std::string_view target);

}  // namespace sluice::web
