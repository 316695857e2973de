// Which handler answers which request.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "web/http_message.hpp"

namespace sluice::web {

/// Answers at once, without waiting for the engine. May run on any thread of the server.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

class Router {
 public:
  /// A GET handler answers HEAD as well (the session leaves the body out).
  void add(std::string method, std::string path, HttpHandler handler);
  /// Whether some method has a route there.
  bool has(const std::string& path) const { return !allowed_methods(path).empty(); }
  /// Answers GET and HEAD of every path without a route.
  void set_fallback(HttpHandler handler) { fallback_ = std::move(handler); }

  /// The handler's answer; 404 for unknown paths, 405 with Allow for known ones. A handler that
  /// throws gives a 500.
  HttpResponse handle(const HttpRequest& request) const;

 private:
  struct Route {
    std::string method;
    std::string path;
    HttpHandler handler;
  };
  const HttpHandler* find(const std::string& method, const std::string& path) const;
  std::string allowed_methods(const std::string& path) const;

  std::vector<Route> routes_;
  HttpHandler fallback_;
};

}  // namespace sluice::web
