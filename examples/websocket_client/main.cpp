// A client of `sluice serve` in C++, without this library: speaks the WebSocket protocol
// (docs/protocol.md) with Boost.Beast and prints an answer as it comes. Boost.JSON reads the
// frames.
//
//   websocket_client 127.0.0.1 8080 "Why is the sky blue?"
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/json/src.hpp>  // the whole of Boost.JSON in this one file
#include <cstdio>
#include <string>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace json = boost::json;
using asio::use_awaitable;
using asio::ip::tcp;
using WebSocket = beast::websocket::stream<beast::tcp_stream>;

asio::awaitable<void> send(WebSocket& socket, const json::object& frame) {
  const std::string text = json::serialize(frame);
  co_await socket.async_write(asio::buffer(text), use_awaitable);
}

asio::awaitable<json::object> receive(WebSocket& socket) {
  beast::flat_buffer buffer;
  co_await socket.async_read(buffer, use_awaitable);
  const auto bytes = buffer.data();
  const json::value frame = json::parse({static_cast<const char*>(bytes.data()), bytes.size()});
  co_return frame.as_object();
}

/// True at the end of the stream.
bool show(const json::object& frame) {
  const json::string& type = frame.at("type").as_string();
  if (type == "token") {
    std::fputs(frame.at("text").as_string().c_str(), stdout);
    std::fflush(stdout);
  } else if (type == "done") {
    std::printf("\n[%s]\n", frame.at("rule").as_string().c_str());
  } else if (type == "error") {
    std::printf("\n[%s]\n", frame.at("message").as_string().c_str());
  }
  return type == "done" || type == "error";
}

asio::awaitable<void> ask(std::string host, std::string port, std::string question) {
  const auto executor = co_await asio::this_coro::executor;
  tcp::resolver resolver(executor);
  WebSocket socket(executor);
  const auto addresses = co_await resolver.async_resolve(host, port, use_awaitable);
  co_await beast::get_lowest_layer(socket).async_connect(addresses, use_awaitable);
  socket.set_option(beast::websocket::stream_base::timeout::suggested(beast::role_type::client));
  socket.set_option(beast::websocket::stream_base::decorator(
      [](auto& request) { request.set(beast::http::field::sec_websocket_protocol, "sluice.v1"); }));
  co_await socket.async_handshake(host + ":" + port, "/v1/stream", use_awaitable);

  const json::object hello = co_await receive(socket);
  std::printf("[%s]\n", hello.at("model").as_string().c_str());
  const json::object message{{"role", "user"}, {"content", question}};
  const json::object request{{"type", "generate"},
                             {"id", "question"},
                             {"messages", json::array{message}},
                             {"max_tokens", 60}};
  co_await send(socket, request);
  while (true) {
    const json::object frame = co_await receive(socket);
    if (show(frame)) break;
  }
  co_await socket.async_close(beast::websocket::close_code::normal, use_awaitable);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: websocket_client HOST PORT QUESTION\n");
    return 2;
  }
  asio::io_context context;
  int result = 0;
  asio::co_spawn(context, ask(argv[1], argv[2], argv[3]), [&](std::exception_ptr failure) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      result = 1;
    }
  });
  context.run();
  return result;
}
