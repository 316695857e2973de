// Who may pass: every request is looked at here when its header has been read, before its body is.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "web/http_message.hpp"
#include "web/server_context.hpp"

namespace sluice::web {

inline constexpr std::string_view kStreamPath = "/v1/stream";

struct Admission {
  /// Why the request is not served: 400 when its framing can be read in two ways, 403 by Host,
  /// Origin or the key's rights, 401 without a good key, 429 when the key has used up its share.
  std::optional<HttpResponse> refusal;
  CallerPtr caller;  ///< whose key it has; none where no key is needed
};

/// `upgrade`: the request wants to become a WebSocket.
Admission admit(const HttpRequest& request, bool upgrade, ServerContext& context);

/// What every response to this request carries: that a page of a configured origin may read it
/// (CORS), and over TLS that browsers should not come without it again (HSTS).
std::vector<std::pair<std::string, std::string>> common_headers(const HttpRequest& request,
                                                                bool encrypted,
                                                                const ServerContext& context);

/// A browser asks whether a page of another (configured) origin may send a request.
bool is_preflight(const HttpRequest& request);
HttpResponse preflight_answer();

/// 429, with the time after which it is worth trying again.
HttpResponse too_many_requests(const RateRefusal& refusal);

/// Whether a header that lists names has this one.
bool lists(std::string_view list, std::string_view name);

}  // namespace sluice::web
