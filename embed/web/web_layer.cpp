// The web server's own classes behind the public WebLayer.
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "embed/service_of.hpp"
#include "engine/base/error.hpp"
#include "sluice/web.hpp"
#include "web/server.hpp"

namespace sluice::v0 {

namespace {

/// "/llm/" and "/llm" are "/llm", "/" is "".
std::string checked_prefix(const std::string& given) {
  std::string prefix = given;
  while (!prefix.empty() && prefix.back() == '/') prefix.pop_back();
  const bool plain =
      prefix.find_first_of(" ?#%\\\"\r\n\t") == std::string::npos && !prefix.starts_with("//");
  if (plain && (prefix.empty() || prefix.front() == '/')) return prefix;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("The prefix \"{}\" is no path; write it like \"/llm\".", given));
}

web::ServerOptions server_options(const WebOptions& options) {
  web::ServerOptions result;
  result.port = 0;
  result.static_dir = options.static_dir;
  result.allowed_hosts = options.hosts;
  result.allowed_origins = options.origins;
  result.limits.max_connections = options.max_connections;
  return result;
}

}  // namespace

struct WebLayer::Impl {
  Impl(Engine& engine, const WebOptions& options)
      : prefix(checked_prefix(options.prefix)),
        server(service_of(engine), server_options(options)) {
    server.start_without_port();
  }

  const std::string prefix;  ///< without a slash at the end
  web::Server server;
};

WebLayer::WebLayer(Engine& engine, const WebOptions& options) {
  try {
    impl_ = std::make_unique<Impl>(engine, options);
  } catch (const sluice::Error& error) {  // nothing but settings can be wrong
    throw Error(ErrorCode::kInvalidArgument, error.what());
  }
}

WebLayer::~WebLayer() = default;

bool WebLayer::owns(std::string_view target) const {
  const std::string_view prefix = impl_->prefix;
  if (!target.starts_with(prefix)) return false;
  const std::string_view rest = target.substr(prefix.size());
  return rest.empty() || rest.front() == '/' || rest.front() == '?';
}

std::optional<std::string> WebLayer::inner_target(std::string_view target) const {
  if (!owns(target)) return std::string(target);
  const std::string_view rest = target.substr(impl_->prefix.size());
  if (rest.empty() || rest.front() != '/') return std::nullopt;
  return std::string(rest);
}

void WebLayer::adopt(int native_socket, std::string already_read) {
  impl_->server.adopt(native_socket, std::move(already_read));
}

void WebLayer::redirect(int native_socket) {
  const std::string answer = fmt::format(
      "HTTP/1.1 308 Permanent Redirect\r\nLocation: {}/\r\nContent-Length: 0\r\n"
      "Connection: close\r\n\r\n",
      impl_->prefix);
  // The first and only bytes of this connection: they fit into its buffer, or nobody reads.
  (void)::send(native_socket, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)::shutdown(native_socket, SHUT_WR);
  (void)::close(native_socket);
}

void WebLayer::stop(std::chrono::milliseconds grace) {
  impl_->server.stop(grace);
}

}  // namespace sluice::v0
