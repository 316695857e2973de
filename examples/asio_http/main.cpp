// An HTTP service of coroutines that embeds the engine: the body of a POST is a prompt, the answer
// comes as it is generated, in chunks. A client that reads slowly slows down its own stream; one
// that goes away ends it.
//
//   asio_http MODEL PORT        curl -N -d 'Once upon a time' http://127.0.0.1:PORT/
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <cstdio>
#include <cstdlib>
#include <sluice/asio.hpp>
#include <string>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::use_awaitable;
using asio::ip::tcp;

asio::awaitable<void> answer(beast::tcp_stream& client, sluice::Engine& engine,
                             std::string prompt) {
  http::response<http::empty_body> head{http::status::ok, 11};
  head.set(http::field::content_type, "text/plain; charset=utf-8");
  head.chunked(true);
  http::response_serializer<http::empty_body> serializer{head};
  co_await http::async_write_header(client, serializer, use_awaitable);

  sluice::Request request;
  request.input = std::move(prompt);
  request.stop.max_new_tokens = 100;
  // Goes with this coroutine, whatever ends it, and takes the stream along.
  sluice::AsyncStream stream(client.get_executor(), engine, std::move(request));
  while (true) {
    const sluice::Event event = co_await stream.next(use_awaitable);
    std::string text;
    if (const auto* token = std::get_if<sluice::TokenEvent>(&event)) text = token->text;
    if (const auto* error = std::get_if<sluice::ErrorEvent>(&event)) text = error->message;
    client.expires_after(std::chrono::seconds(30));
    if (!text.empty()) {
      co_await asio::async_write(client, http::make_chunk(asio::buffer(text)), use_awaitable);
    }
    if (is_terminal(event)) break;
  }
  co_await asio::async_write(client, http::make_chunk_last(), use_awaitable);
}

asio::awaitable<void> serve_client(tcp::socket socket, sluice::Engine& engine) {
  beast::tcp_stream client(std::move(socket));
  beast::flat_buffer buffer;
  try {
    while (true) {
      client.expires_after(std::chrono::seconds(30));
      http::request<http::string_body> request;
      co_await http::async_read(client, buffer, request, use_awaitable);
      co_await answer(client, engine, std::move(request.body()));
      if (!request.keep_alive()) break;
    }
    beast::error_code ignored;
    client.socket().shutdown(tcp::socket::shutdown_send, ignored);
  } catch (const boost::system::system_error&) {
    // The client has gone, or did not say anything for too long.
  }
}

asio::awaitable<void> accept_clients(tcp::acceptor acceptor, sluice::Engine& engine) {
  while (true) {
    tcp::socket socket = co_await acceptor.async_accept(use_awaitable);
    asio::co_spawn(acceptor.get_executor(), serve_client(std::move(socket), engine),
                   asio::detached);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: asio_http MODEL PORT\n");
    return 2;
  }
  try {
    asio::io_context context(1);  // before the engine, so that it goes after it
    sluice::Config config;
    config.model = argv[1];
    sluice::Engine engine{config};
    const auto port = static_cast<unsigned short>(std::atoi(argv[2]));
    tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), port});
    std::printf("http://127.0.0.1:%d\n", acceptor.local_endpoint().port());
    std::fflush(stdout);
    asio::signal_set signals(context, SIGINT, SIGTERM);
    signals.async_wait([&](beast::error_code, int) { context.stop(); });
    asio::co_spawn(context, accept_clients(std::move(acceptor), engine), asio::detached);
    context.run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
