#include "web/transport/linger.hpp"

#include <boost/asio/ip/tcp.hpp>

namespace sluice::web {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::chrono::seconds kTime{2};
constexpr std::size_t kMostBytes = 1 << 20;

struct Waste {
  std::array<char, 4096> bytes;
  std::size_t total = 0;
};

void read_on(boost::beast::tcp_stream& stream, std::unique_ptr<Waste> waste, IoHandler handler) {
  Waste& into = *waste;
  stream.async_read_some(asio::buffer(into.bytes),
                         [&stream, waste = std::move(waste), handler = std::move(handler)](
                             error_code error, std::size_t bytes) mutable {
                           waste->total += bytes;
                           if (!error && waste->total <= kMostBytes) {
                             return read_on(stream, std::move(waste), std::move(handler));
                           }
                           waste.reset();
                           handler(error == asio::error::eof ? error_code() : error);
                         });
}

}  // namespace

void linger(boost::beast::tcp_stream& stream, IoHandler handler) {
  error_code ignored;
  stream.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  stream.expires_after(kTime);
  read_on(stream, std::make_unique<Waste>(), std::move(handler));
}

}  // namespace sluice::web
