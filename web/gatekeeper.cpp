#include "web/gatekeeper.hpp"

#include <boost/beast/http/rfc7230.hpp>

#include "web/endpoints.hpp"
#include "web/openai/api_error.hpp"

namespace sluice::web {
namespace {

constexpr std::string_view kKeyProtocol = "sluice.key.";

HttpResponse bad_request(std::string_view message) {
  HttpResponse response = error_response(400, "bad_request", message);
  response.close = true;
  return response;
}

/// Two servers in a row must not see different requests in the same bytes (RFC 9112 section 11.2):
/// what is ambiguous is refused, and the connection ends.
std::optional<HttpResponse> ambiguity(const HttpRequest& request) {
  const std::size_t hosts = request.count("host");
  if (hosts > 1 || (hosts == 0 && request.version >= 11) || request.count("origin") > 1) {
    return bad_request("The request needs one Host header, and one Origin header at most.");
  }
  if (request.count("authorization") > 1) {
    return bad_request("The request has several Authorization headers; send one.");
  }
  const std::size_t codings = request.count("transfer-encoding");
  const std::size_t lengths = request.count("content-length");
  const std::string_view length = request.header("content-length");
  const bool is_number = length.find_first_not_of("0123456789") == std::string_view::npos;
  if (lengths > 1 || (lengths == 1 && (codings > 0 || !is_number))) {
    return bad_request(
        "The request's length is given twice; send Content-Length or "
        "Transfer-Encoding, once.");
  }
  const bool chunked = lower_case(request.header("transfer-encoding")) == "chunked";
  if (codings > 1 || (codings == 1 && (!chunked || request.version < 11))) {
    return bad_request(
        "The only Transfer-Encoding that is understood is \"chunked\", with "
        "HTTP/1.1.");
  }
  return std::nullopt;
}

// -- keys -----------------------------------------------------------------------------------------

/// What a request needs where the server has keys. The page itself is open, so that a browser can
/// show where to enter a key; so are probes, which say nothing.
enum class Need { kNothing, kKey, kObserver };

Need need_of(const HttpRequest& request, const ServerContext& context) {
  if (!context.needs_keys() || is_probe(request.path) || is_preflight(request)) {
    return Need::kNothing;
  }
  if (request.path == "/metrics") return Need::kObserver;
  const bool known = request.path == kStreamPath || context.router.has(request.path);
  return known ? Need::kKey : Need::kNothing;
}

/// "Authorization: Bearer KEY"; browsers can't set headers of WebSockets, and name the key in the
/// list of subprotocols instead. (Not in the URL: proxies and browsers write those down.)
std::string_view key_of(const HttpRequest& request, bool upgrade) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view header = request.header("authorization");
  if (!header.empty()) {
    const bool bearer = lower_case(header.substr(0, kScheme.size())) == kScheme;
    if (!bearer) return {};
    const std::size_t begin = header.find_first_not_of(' ', kScheme.size());
    return begin == std::string_view::npos ? std::string_view() : header.substr(begin);
  }
  if (!upgrade) return {};
  for (const auto& protocol :
       boost::beast::http::token_list(request.header("sec-websocket-protocol"))) {
    const std::string_view name(protocol.data(), protocol.size());
    if (name.starts_with(kKeyProtocol)) return name.substr(kKeyProtocol.size());
  }
  return {};
}

HttpResponse unauthorized(bool has_key) {
  HttpResponse response = openai::to_response(
      {.status = 401,
       .message = has_key ? "This key is not known here; check it, or ask who runs the server."
                          : "This server needs a key; send it as \"Authorization: Bearer KEY\".",
       .code = "invalid_api_key"});
  response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"sluice\"");
  return response;
}

HttpResponse not_an_observer() {
  return openai::to_response(
      {.status = 403,
       .type = "permission_error",
       .message = "This key may not see the metrics; its line in the file of keys needs "
                  "\"observe\".",
       .code = "insufficient_permissions"});
}

Admission admit_caller(const HttpRequest& request, bool upgrade, ServerContext& context) {
  const Need need = need_of(request, context);
  if (need == Need::kNothing) return {};
  const std::string_view key = key_of(request, upgrade);
  Admission admission{std::nullopt, context.keys.find(key)};
  if (!admission.caller) return {unauthorized(!key.empty()), nullptr};
  if (need == Need::kObserver && !admission.caller->observes()) return {not_an_observer(), nullptr};
  if (request.method != "POST") return admission;
  if (const auto refused = admission.caller->take_request()) {
    return {too_many_requests(*refused), nullptr};
  }
  return admission;
}

/// A name, and not only this machine's: what HSTS makes sense for, since it holds for all ports.
bool is_public_name(std::string_view host_header) {
  const auto host = parse_host(host_header);
  return host && host->host != "localhost" && !host->host.ends_with(".localhost") &&
         !is_ip_literal(host->host);
}

}  // namespace

Admission admit(const HttpRequest& request, bool upgrade, ServerContext& context) {
  if (auto ambiguous = ambiguity(request)) return {std::move(ambiguous), nullptr};
  if (is_probe(request.path)) return {};
  const std::string why =
      context.origins->refusal(request.header("host"), request.header("origin"));
  if (!why.empty()) return {error_response(403, "forbidden", why), nullptr};
  return admit_caller(request, upgrade, context);
}

std::vector<std::pair<std::string, std::string>> common_headers(const HttpRequest& request,
                                                                bool encrypted,
                                                                const ServerContext& context) {
  std::vector<std::pair<std::string, std::string>> headers;
  const std::string_view origin = request.header("origin");
  if (!origin.empty() && context.origins->is_configured(origin)) {
    headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
    headers.emplace_back("Access-Control-Expose-Headers", "Retry-After");
    headers.emplace_back("Vary", "Origin");
  }
  if (encrypted && is_public_name(request.header("host"))) {
    headers.emplace_back("Strict-Transport-Security", "max-age=31536000");
  }
  return headers;
}

bool is_preflight(const HttpRequest& request) {
  return request.method == "OPTIONS" && !request.header("origin").empty() &&
         !request.header("access-control-request-method").empty();
}

HttpResponse preflight_answer() {
  HttpResponse response;
  response.status = 204;
  response.headers = {{"Access-Control-Allow-Methods", "GET, POST"},
                      {"Access-Control-Allow-Headers", "authorization, content-type"},
                      {"Access-Control-Max-Age", "600"}};
  return response;
}

HttpResponse too_many_requests(const RateRefusal& refusal) {
  HttpResponse response = openai::to_response({.status = 429,
                                               .type = "rate_limit_error",
                                               .message = refusal.message,
                                               .code = "rate_limit_exceeded"});
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(refusal.retry_after).count();
  response.headers = {{"Retry-After", std::to_string(seconds)}};
  return response;
}

bool lists(std::string_view list, std::string_view name) {
  for (const auto& token : boost::beast::http::token_list(list)) {
    if (token == name) return true;
  }
  return false;
}

}  // namespace sluice::web
