#include "web/origin_policy.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "engine/base/error.hpp"
#include "web/http_message.hpp"

namespace sluice::web {
namespace {

bool is_loopback_name(std::string_view host) {
  return host == "localhost" || host == "127.0.0.1" || host == "::1";
}

bool is_wildcard(std::string_view address) {
  return address == "0.0.0.0" || address == "::";
}

struct Origin {
  std::string scheme;
  std::string host;
  std::uint16_t port = 0;
  std::string normalised() const { return fmt::format("{}://{}:{}", scheme, host, port); }
};

std::uint16_t default_port(std::string_view scheme) {
  return scheme == "https" ? 443 : 80;
}

std::optional<Origin> parse_origin(std::string_view text) {
  for (const std::string_view scheme : {"http", "https"}) {
    const std::string prefix = std::string(scheme) + "://";
    if (lower_case(text.substr(0, prefix.size())) != prefix) continue;
    const auto authority = parse_host(text.substr(prefix.size()));
    if (!authority) return std::nullopt;
    return Origin{std::string(scheme), authority->host,
                  authority->port.value_or(default_port(scheme))};
  }
  return std::nullopt;
}

/// For showing a header in a sentence.
std::string_view shown(std::string_view text) {
  return text.substr(0, 100);
}

}  // namespace

std::optional<HostPort> parse_host(std::string_view text) {
  HostPort result;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    result.host = lower_case(text.substr(1, end - 1));
    port = text.substr(end + 1);
    if (!port.empty() && !port.starts_with(':')) return std::nullopt;
    if (!is_ip_literal(result.host)) return std::nullopt;
  } else {
    const std::size_t colon = text.find(':');
    result.host = lower_case(text.substr(0, colon));
    if (colon != std::string_view::npos) port = text.substr(colon);
    const auto is_name_char = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
    };
    if (result.host.empty() || !std::all_of(result.host.begin(), result.host.end(), is_name_char)) {
      return std::nullopt;
    }
  }
  if (port.size() > 1) {
    std::uint16_t number = 0;
    const char* end = port.data() + port.size();
    const auto parsed = std::from_chars(port.data() + 1, end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
    result.port = number;
  }
  return result;
}

bool is_ip_literal(std::string_view host) {
  in6_addr buffer{};
  const std::string text(host);
  return inet_pton(AF_INET, text.c_str(), &buffer) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &buffer) == 1;
}

OriginPolicy::OriginPolicy(std::string address, std::uint16_t port,
                           const std::vector<std::string>& hosts,
                           const std::vector<std::string>& origins, bool tls)
    : address_(lower_case(address)), port_(port), tls_(tls) {
  for (const std::string& host : hosts) {
    const auto parsed = parse_host(host);
    if (!parsed) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("The allowed host \"{}\" is not a host name; write it like "
                              "\"chat.example\".",
                              host));
    }
    hosts_.push_back(parsed->host);
  }
  for (const std::string& origin : origins) {
    const auto parsed = parse_origin(origin);
    if (!parsed) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("The allowed origin \"{}\" is not an origin; write it like "
                              "\"https://chat.example\", without a path.",
                              origin));
    }
    origins_.push_back(parsed->normalised());
  }
}

std::string OriginPolicy::refusal(std::string_view host, std::string_view origin) const {
  const auto authority = parse_host(host);
  if (!authority || !host_allowed(authority->host)) {
    return fmt::format(
        "This server does not answer to the host name \"{}\"; use localhost, or allow the name "
        "where the server is started.",
        shown(host));
  }
  if (origin.empty() || is_configured(origin)) return {};

  const auto page = parse_origin(origin);
  if (page && (page->scheme == "https" || !tls_)) {
    const bool same_as_host = page->host == authority->host &&
                              page->port == authority->port.value_or(default_port(page->scheme));
    const bool own_page = host_allowed(page->host) && page->port == port_;
    if (same_as_host || own_page) return {};
  }
  return fmt::format(
      "Pages of \"{}\" may not use this server; open the server's own page, or allow the origin "
      "where the server is started.",
      shown(origin));
}

bool OriginPolicy::is_configured(std::string_view origin) const {
  const auto parsed = parse_origin(origin);
  return parsed &&
         std::find(origins_.begin(), origins_.end(), parsed->normalised()) != origins_.end();
}

bool OriginPolicy::host_allowed(std::string_view name) const {
  if (is_loopback_name(name) || name == address_) return true;
  // Listening everywhere, the server can't list its addresses; but a browser that was sent to an
  // address, not to a name, can't have been rebound.
  if (is_wildcard(address_) && is_ip_literal(name)) return true;
  return std::find(hosts_.begin(), hosts_.end(), name) != hosts_.end();
}

}  // namespace sluice::web
