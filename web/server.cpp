#include "web/server.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/strand.hpp>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "web/endpoints.hpp"
#include "web/http_session.hpp"
#include "web/listener.hpp"
#include "web/openai/text_endpoints.hpp"
#include "web/server_context.hpp"
#include "web/static_files.hpp"
#include "web/transport/tcp_transport.hpp"
#include "web/web_log.hpp"

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
  if (!address.is_loopback() && options.key_file.empty() && !options.insecure) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("Not listening on {}: without keys whoever reaches it could use the "
                            "model. Give --api-keys (`sluice key new NAME` makes a key), or "
                            "--insecure where everybody may; 127.0.0.1 is for this machine only.",
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
    load_files();
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
                                       context->options.allowed_origins, encrypted());
  }

  bool encrypted() const { return !context->options.tls_certificate.empty(); }
  void load_files();
  void warn_of_risks() const;
  void start();
  void start_threads();
  void adopt(int native_socket, std::string_view already_read);
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

/// All are read before the first is put to use: a mistake in one changes nothing.
void Server::Impl::load_files() {
  const ServerOptions& options = context->options;
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "TLS needs a certificate and its key; give both --tls-cert and --tls-key.");
  }
  std::shared_ptr<TlsCertificate> certificate;
  if (encrypted()) {
    certificate = load_certificate(options.tls_certificate, options.tls_key);
    const std::string warning = certificate_warning(*certificate);
    if (!warning.empty()) web_log()->warn("{}", warning);
  }
  std::vector<KeyEntry> keys;
  if (context->needs_keys()) keys = read_key_file(options.key_file);
  context->certificate.set(std::move(certificate));
  context->keys.set(keys);
  for (const auto& connection : context->connections.all()) connection->check_key();
}

void Server::Impl::warn_of_risks() const {
  if (address.is_loopback()) return;
  if (!context->needs_keys()) {
    web_log()->warn("Listening on {} without keys: whoever reaches it may use the model.",
                    address.to_string());
  } else if (!encrypted()) {
    web_log()->warn(
        "Keys travel unencrypted; use --tls-cert and --tls-key, or a proxy that speaks "
        "TLS before this server.");
  }
}

void Server::Impl::start() {
  listener =
      std::make_shared<Listener>(context, asio::ip::tcp::endpoint(address, context->options.port));
  make_origins(listener->port());
  warn_of_risks();
  start_threads();
  listener->start();
}

void Server::Impl::start_threads() {
  work.emplace(context->io.get_executor());
  for (int i = 0; i < std::max(1, context->options.threads); ++i) {
    threads.emplace_back([this] { run_thread(); });
  }
}

void Server::Impl::adopt(int native_socket, std::string_view already_read) {
  sockaddr_storage address_of_socket{};
  socklen_t size = sizeof(address_of_socket);
  asio::ip::tcp::socket socket(asio::make_strand(context->io));
  boost::system::error_code error;
  if (::getsockname(native_socket, reinterpret_cast<sockaddr*>(&address_of_socket), &size) == 0) {
    const bool v6 = address_of_socket.ss_family == AF_INET6;
    socket.assign(v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), native_socket, error);
  }
  if (!socket.is_open()) {
    ::close(native_socket);
    return;
  }
  if (context->closing || context->connections.size() >= context->options.limits.max_connections) {
    return;
  }
  socket.set_option(asio::ip::tcp::no_delay(true), error);
  boost::beast::flat_buffer buffer;
  buffer.commit(asio::buffer_copy(buffer.prepare(already_read.size()), asio::buffer(already_read)));
  continue_http_session(context, ClientStream(make_tcp_transport(std::move(socket))),
                        std::move(buffer));
}

void Server::Impl::run_thread() {
  while (true) {
    try {
      context->io.run();
      return;
    } catch (const std::exception& error) {
      // Only lack of memory comes this far; the connection concerned is lost, the others go on.
      web_log()->error("A handler of the web server failed: {}", error.what());
    }
  }
}

void Server::Impl::stop(std::chrono::milliseconds grace) {
  if (threads.empty()) return;
  finish_streams(grace);  // meanwhile probes and metrics are answered
  context->closing = true;
  if (listener) listener->stop();
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
      web_log()->warn("{} connections did not end in time.", connections.size());
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

void Server::start_without_port() {
  impl_->start_threads();
}

void Server::adopt(int native_socket, std::string already_read) {
  impl_->adopt(native_socket, already_read);
}

void Server::stop(std::chrono::milliseconds grace) {
  impl_->stop(grace);
}

void Server::reload() {
  impl_->load_files();
}

std::uint16_t Server::port() const {
  return impl_->listener ? impl_->listener->port() : 0;
}

std::string Server::url() const {
  const std::string host = impl_->address.is_v6() ? fmt::format("[{}]", impl_->address.to_string())
                                                  : impl_->address.to_string();
  return fmt::format("{}://{}:{}", impl_->encrypted() ? "https" : "http", host, port());
}

}  // namespace sluice::web
