#include "web/router.hpp"
#include "web/web_log.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

namespace sluice::web {
namespace {

HttpResponse call(const HttpHandler& handler, const HttpRequest& request) {
  try {
    return handler(request);
  } catch (const std::exception& error) {
    web_log()->error("The handler of {} failed: {}", request.path, error.what());
    return error_response(500, "internal", "The server failed to answer; its log says why.");
  }
}

}  // namespace

void Router::add(std::string method, std::string path, HttpHandler handler) {
  routes_.push_back({std::move(method), std::move(path), std::move(handler)});
}

HttpResponse Router::handle(const HttpRequest& request) const {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  if (const HttpHandler* handler = find(method, request.path)) return call(*handler, request);

  std::string allowed = allowed_methods(request.path);
  if (allowed.empty() && method == "GET" && fallback_) return call(fallback_, request);
  if (allowed.empty()) allowed = "GET, HEAD";
  HttpResponse response = error_response(
      405, "method_not_allowed",
      fmt::format("{} can't be used on {}; use {}.", request.method, request.path, allowed));
  response.headers.emplace_back("Allow", allowed);
  return response;
}

const HttpHandler* Router::find(const std::string& method, const std::string& path) const {
  for (const Route& route : routes_) {
    if (route.method == method && route.path == path) return &route.handler;
  }
  return nullptr;
}

std::string Router::allowed_methods(const std::string& path) const {
  std::string allowed;
  for (const Route& route : routes_) {
    if (route.path != path) continue;
    if (!allowed.empty()) allowed += ", ";
    allowed += route.method == "GET" ? "GET, HEAD" : route.method;
  }
  return allowed;
}

}  // namespace sluice::web
