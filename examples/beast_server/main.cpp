// An HTTP server that existed before, with Sluice's page and protocols below /llm.
//
//   beast_server MODEL PORT      then http://127.0.0.1:PORT/llm/
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cstdio>
#include <cstdlib>
#include <sluice/web.hpp>
#include <string>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::use_awaitable;
using asio::ip::tcp;
using Request = http::request<http::string_body>;

http::response<http::string_body> own_answer(const Request& request) {
  http::response<http::string_body> response{http::status::ok, request.version()};
  response.set(http::field::content_type, "text/plain");
  response.keep_alive(request.keep_alive());
  response.body() = "This is the server that was here before. Stories are at /llm/\n";
  response.prepare_payload();
  return response;
}

asio::awaitable<void> serve_client(tcp::socket socket, sluice::WebLayer& web) {
  beast::tcp_stream client(std::move(socket));
  beast::flat_buffer buffer;
  try {
    while (true) {
      Request request;
      client.expires_after(std::chrono::seconds(30));
      co_await http::async_read(client, buffer, request, use_awaitable);
      if (web.owns({request.target().data(), request.target().size()})) {
        sluice::hand_over(web, client, std::move(request), buffer);
        co_return;
      }
      const auto response = own_answer(request);
      co_await http::async_write(client, response, use_awaitable);
      if (!request.keep_alive()) break;
    }
    beast::error_code ignored;
    client.socket().shutdown(tcp::socket::shutdown_send, ignored);
  } catch (const boost::system::system_error&) {
    // The client has gone, or did not say anything for too long.
  }
}

asio::awaitable<void> accept_clients(tcp::acceptor acceptor, sluice::WebLayer& web) {
  while (true) {
    tcp::socket socket = co_await acceptor.async_accept(use_awaitable);
    asio::co_spawn(acceptor.get_executor(), serve_client(std::move(socket), web), asio::detached);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: beast_server MODEL PORT\n");
    return 2;
  }
  try {
    sluice::Config config;
    config.model = argv[1];
    sluice::Engine engine{config};
    sluice::WebLayer web(engine, {.prefix = "/llm"});

    asio::io_context context(1);
    const auto port = static_cast<unsigned short>(std::atoi(argv[2]));
    tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), port});
    std::printf("http://127.0.0.1:%d/llm/\n", acceptor.local_endpoint().port());
    std::fflush(stdout);
    asio::signal_set signals(context, SIGINT, SIGTERM);
    signals.async_wait([&](beast::error_code, int) { context.stop(); });
    asio::co_spawn(context, accept_clients(std::move(acceptor), web), asio::detached);
    context.run();
    web.stop(std::chrono::seconds(2));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
