#include "web/server.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/address.hpp>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "web/endpoints.hpp"
#include "web/listener.hpp"
#include "web/openai/text_endpoints.hpp"
#include "web/server_context.hpp"
#include "web/static_files.hpp"

namespace sluice::web {
namespace {

namespace asio = boost::asio;
using WorkGuard = asio::executor_work_guard<asio::io_context::executor_type>;

constexpr std::chrono::milliseconds kFlushTime{2000};  // for terminal events after a cancel
constexpr std::chrono::milliseconds kAbortTime{1000};

asio::ip::address parse_address(const ServerOptions& options) {
  boost::system::error_code error;
  const std::string text = options.address == "localhost" ? "127.0.0.1" : options.address;
  const auto address = asio::ip::make_address(text, error);
  if (error) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("\"{}\" is not an IP address to listen on; use 127.0.0.1 for this "
                            "machine only.",
                            options.address));
  }
  if (!address.is_loopback() && !options.force) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("Not listening on {}: whoever reaches it could use the model, and "
                            "there are no keys yet; use 127.0.0.1, or --force on a network that "
                            "you trust.",
                            options.address));
  }
  return address;
}

}  // namespace

struct Server::Impl {
  Impl(StreamService& service, ServerOptions options)
      : address(parse_address(options)),
        files(options.static_dir),
        context(std::make_shared<ServerContext>(service, std::move(options))) {
    // Names that can't work are found before the port is taken.
    make_origins(context->options.port);
    add_endpoints(context->router,
                  {service, context->counters, context->hub,
                   [context = context.get()] { return context->stopping.load(); }});
    openai::add_text_endpoints(context->router, service);
    context->router.set_fallback([this](const HttpRequest& request) { return files.get(request); });
  }

  void make_origins(std::uint16_t port) {
    context->origins =
        std::make_unique<OriginPolicy>(address.to_string(), port, context->options.allowed_hosts,
                                       context->options.allowed_origins);
  }

  void start();
  void stop(std::chrono::milliseconds grace);
  void finish_streams(std::chrono::milliseconds grace);
  void end_connections();
  void run_thread();

  asio::ip::address address;
  StaticFiles files;
  std::shared_ptr<ServerContext> context;
  std::shared_ptr<Listener> listener;
  std::optional<WorkGuard> work;
  std::vector<std::thread> threads;
};

void Server::Impl::start() {
  listener =
      std::make_shared<Listener>(context, asio::ip::tcp::endpoint(address, context->options.port));
  make_origins(listener->port());
  work.emplace(context->io.get_executor());
  for (int i = 0; i < std::max(1, context->options.threads); ++i) {
    threads.emplace_back([this] { run_thread(); });
  }
  listener->start();
}

void Server::Impl::run_thread() {
  while (true) {
    try {
      context->io.run();
      return;
    } catch (const std::exception& error) {
      // Only lack of memory comes this far; the connection concerned is lost, the others go on.
      spdlog::error("A handler of the web server failed: {}", error.what());
    }
  }
}

void Server::Impl::stop(std::chrono::milliseconds grace) {
  if (threads.empty()) return;
  listener->stop();
  finish_streams(grace);
  end_connections();
  work.reset();
  for (std::thread& thread : threads) thread.join();
  threads.clear();
}

void Server::Impl::finish_streams(std::chrono::milliseconds grace) {
  context->hub.close();
  context->stopping = true;
  if (context->hub.wait_until_empty(grace)) return;
  context->hub.cancel_all("the server is shutting down");
  context->hub.wait_until_empty(kFlushTime);
}

/// Says goodbye, then insists. When this returns normally, nothing is pending any more and the
/// threads run out of work.
void Server::Impl::end_connections() {
  ConnectionList& connections = context->connections;
  for (const auto& connection : connections.all()) connection->shut_down();
  const auto patience = context->options.limits.close_timeout + kAbortTime;
  if (!connections.wait_until_empty(patience)) {
    for (const auto& connection : connections.all()) connection->abort();
    if (!connections.wait_until_empty(kAbortTime)) {
      spdlog::warn("{} connections did not end in time.", connections.size());
      context->io.stop();
    }
  }
  context->stats.stop();
  // After this no event of the engine posts to the io_context.
  context->hub.detach_all();
}

Server::Server(StreamService& service, ServerOptions options)
    : impl_(std::make_unique<Impl>(service, std::move(options))) {}

Server::~Server() {
  impl_->stop(std::chrono::milliseconds(0));
}

void Server::start() {
  impl_->start();
}

void Server::stop(std::chrono::milliseconds grace) {
  impl_->stop(grace);
}

std::uint16_t Server::port() const {
  return impl_->listener ? impl_->listener->port() : 0;
}

std::string Server::url() const {
  const std::string host = impl_->address.is_v6() ? fmt::format("[{}]", impl_->address.to_string())
                                                  : impl_->address.to_string();
  return fmt::format("http://{}:{}", host, port());
}

}  // namespace sluice::web
