#include <latch>

#include "bench/ways/collector.hpp"
#include "bench/ways/ways.hpp"
#include "embed/engine_core.hpp"
#include "sluice/engine.hpp"

namespace sluice::bench {
namespace {

class CallbackWay final : public Way {
 public:
  explicit CallbackWay(PreparedEngine prepared)
      : engine_(embed::Access::make_engine(std::move(prepared))) {}
  std::string_view name() const override { return "callback"; }

  WayResult run(const std::vector<v0::Request>& requests) override {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Collector> streams(requests.size());
    std::latch open(static_cast<std::ptrdiff_t>(requests.size()));
    for (std::size_t i = 0; i < requests.size(); ++i) {
      engine_.generate(requests[i], [&, i](const v0::Event& event) {
        if (streams[i].add(event)) open.count_down();
      });
    }
    open.wait();
    return result_of(streams, std::chrono::steady_clock::now() - begin);
  }

 private:
  v0::Engine engine_;
};

}  // namespace

std::unique_ptr<Way> make_callback_way(PreparedEngine prepared) {
  return std::make_unique<CallbackWay>(std::move(prepared));
}

}  // namespace sluice::bench
