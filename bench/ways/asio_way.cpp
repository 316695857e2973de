#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "bench/ways/collector.hpp"
#include "bench/ways/ways.hpp"
#include "embed/engine_core.hpp"
#include "sluice/asio.hpp"

namespace sluice::bench {
namespace {

namespace asio = boost::asio;

asio::awaitable<void> listen(v0::AsyncStream stream, Collector& collector) {
  while (true) {
    const v0::Event event = co_await stream.next(asio::use_awaitable);
    if (collector.add(event)) co_return;
  }
}

class AsioWay final : public Way {
 public:
  explicit AsioWay(PreparedEngine prepared)
      : engine_(embed::Access::make_engine(std::move(prepared))) {}
  std::string_view name() const override { return "asio"; }

  WayResult run(const std::vector<v0::Request>& requests) override {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Collector> streams(requests.size());
    asio::io_context context(1);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      v0::AsyncStream stream(context.get_executor(), engine_, requests[i]);
      asio::co_spawn(context, listen(std::move(stream), streams[i]), asio::detached);
    }
    context.run();
    return result_of(streams, std::chrono::steady_clock::now() - begin);
  }

 private:
  v0::Engine engine_;
};

}  // namespace

std::unique_ptr<Way> make_asio_way(PreparedEngine prepared) {
  return std::make_unique<AsioWay>(std::move(prepared));
}

}  // namespace sluice::bench
