#include "web/response_text.hpp"

#include <fmt/format.h>

#include <boost/beast/http/status.hpp>

namespace sluice::web {

std::string response_head(const HttpResponse& response, const ResponseForm& form) {
  const auto reason =
      boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(response.status));
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nServer: sluice\r\nContent-Type: {}\r\n", response.status,
                  std::string_view(reason.data(), reason.size()), response.content_type);
  const auto add = [&](std::string_view name, std::string_view value) {
    head += fmt::format("{}: {}\r\n", name, value);
  };
  for (const auto& [name, value] : security_headers()) add(name, value);
  for (const auto& [name, value] : response.headers) add(name, value);
  if (form.chunked) {
    add("Transfer-Encoding", "chunked");
  } else if (form.body_bytes > 0) {
    add("Content-Length", std::to_string(form.body_bytes));
  }
  if (!form.keep_alive) add("Connection", "close");
  return head + "\r\n";
}

std::string chunk(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

}  // namespace sluice::web
