// What each way into the engine costs, against the raw loop: tokens a second of 1 and of 8 streams,
// the ways taking turns. The best round of each counts, which is the one that other programs on the
// machine disturbed least; the median stands beside it.
//
//   embed_bench MODEL [ROUNDS [TOKENS]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/ways/ways.hpp"
#include "embed/engine_core.hpp"

namespace {

using namespace sluice;

/// One backend for all: where its weights lie in memory makes more of a difference than any way.
class SharedBackend final : public Backend {
 public:
  explicit SharedBackend(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}
  void allocate_pool(const KvPoolShape& shape) override { backend_->allocate_pool(shape); }
  StepResult step(const StepBatch& batch) noexcept override { return backend_->step(batch); }
  BackendMemory memory() const override { return backend_->memory(); }
  std::string description() const override { return backend_->description(); }

 private:
  std::shared_ptr<Backend> backend_;
};

std::vector<v0::Request> make_requests(std::size_t count, std::int32_t tokens, int round) {
  std::vector<v0::Request> requests(count);
  for (std::size_t i = 0; i < count; ++i) {
    requests[i].input = "Round " + std::to_string(round) + ", story " + std::to_string(i);
    requests[i].sampling.temperature = 0.0F;
    requests[i].stop.max_new_tokens = tokens;
    requests[i].stop.ignore_end_tokens = true;
  }
  return requests;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void measure(const std::vector<std::unique_ptr<bench::Way>>& ways, std::size_t streams, int rounds,
             std::int32_t tokens) {
  std::map<std::string_view, std::vector<double>> speeds;
  for (int round = 0; round <= rounds; ++round) {
    for (const auto& way : ways) {
      const bench::WayResult result = way->run(make_requests(streams, tokens, round));
      if (round == 0) continue;  // warms up
      speeds[way->name()].push_back(static_cast<double>(result.tokens) /
                                    std::chrono::duration<double>(result.time).count());
    }
  }
  const auto best = [&](std::string_view name) { return std::ranges::max(speeds[name]); };
  const double raw = best(ways.front()->name());
  for (const auto& way : ways) {
    const double speed = best(way->name());
    std::printf("%2zu streams  %-9s %9.2f tokens/s  %+6.2f %%  %+7.1f us a token  (median %.2f)\n",
                streams, std::string(way->name()).c_str(), speed, 100.0 * (raw / speed - 1.0),
                1e6 * (1.0 / speed - 1.0 / raw), median(speeds[way->name()]));
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: embed_bench MODEL [ROUNDS [TOKENS]]\n");
    return 2;
  }
  try {
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
    const std::int32_t tokens = argc > 3 ? std::atoi(argv[3]) : 32;
    v0::Config config;
    config.model = argv[1];
    config.context = 256;
    config.sequences = 8;
    config.prefix_cache = false;  // the pool is shared as well, and only one way is at work
    PreparedEngine prepared = embed::prepare(config);
    const std::shared_ptr<Backend> backend = prepared.make_backend();
    prepared.make_backend = [backend] { return std::make_unique<SharedBackend>(backend); };
    std::vector<std::unique_ptr<bench::Way>> ways;
    ways.push_back(bench::make_loop_way(prepared));
    ways.push_back(bench::make_callback_way(prepared));
    ways.push_back(bench::make_asio_way(prepared));
    ways.push_back(bench::make_caf_way(prepared));
    for (const std::size_t streams : {std::size_t{1}, std::size_t{8}}) {
      measure(ways, streams, rounds, tokens);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
