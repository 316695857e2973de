// Who may talk to the server, by the Host and Origin headers of a request.
//
// The Host check stops DNS rebinding: a foreign name that resolves to this machine. The Origin
// check stops pages of other sites; for WebSockets nothing else does, since browsers do not
// apply CORS to them. Programs send no Origin and pass.
//
// Worked example, listening on 127.0.0.1:8080: Host "localhost:8080" passes, "evil.example" does
// not; with that Host, Origin "http://localhost:8080" passes, "http://localhost:3000" and "null"
// do not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::web {

class OriginPolicy {
 public:
  /// `tls`: the server speaks TLS itself, so that its own pages are https alone. Throws
  /// Error(kInvalidArgument) for an allowed origin that is none, or a malformed host.
  OriginPolicy(std::string address, std::uint16_t port, const std::vector<std::string>& hosts,
               const std::vector<std::string>& origins, bool tls = false);

  /// Why the request is refused, as a sentence; empty when it may pass. `origin` is empty when
  /// the request has none.
  std::string refusal(std::string_view host, std::string_view origin) const;

  /// `origin` is one of the configured ones (it may read answers across origins).
  bool is_configured(std::string_view origin) const;

 private:
  bool host_allowed(std::string_view name) const;

  std::string address_;
  std::uint16_t port_;
  bool tls_;
  std::vector<std::string> hosts_;    ///< lower case, without port
  std::vector<std::string> origins_;  ///< normalised: lower case, explicit port
};

/// The host of "name", "name:port", "[v6]:port", in lower case, and its port if it has one.
struct HostPort {
  std::string host;
  std::optional<std::uint16_t> port;
};
/// Empty when malformed.
std::optional<HostPort> parse_host(std::string_view text);

/// "127.0.0.1", "::1", without brackets.
bool is_ip_literal(std::string_view host);

}  // namespace sluice::web
