#include "actors/stream_clock.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "actors/engine.hpp"
#include "actors/histogram.hpp"
#include "engine/stream/samples.hpp"
#include "tests/support/scripted_engine.hpp"
#include "tests/support/stream_log.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;
using std::chrono::milliseconds;

Publication publication(Publication::Kind kind) {
  Publication made;
  made.kind = kind;
  return made;
}

const Publication kPrefill = publication(Publication::Kind::kPrefill);
const Publication kToken = publication(Publication::Kind::kToken);

}  // namespace

TEST_CASE("a histogram puts every value where it belongs", "[histogram]") {
  const std::array<double, 4> bounds = {0.5, 1.0, 2.0, 8.0};
  std::mt19937_64 random(11);
  Histogram histogram(bounds);
  std::vector<double> values;
  for (int i = 0; i < 2000; ++i) {
    const double value = static_cast<double>(random() % 40) / 4.0;  // also the bounds themselves
    const std::uint64_t times = random() % 3;
    histogram.observe(value, times);
    values.insert(values.end(), times, value);
  }
  double sum = 0.0;
  for (const double value : values) sum += value;
  CHECK(histogram.count() == values.size());
  CHECK(histogram.sum() == Approx(sum));
  double below = -1.0;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const auto inside = std::count_if(values.begin(), values.end(),
                                      [&](double v) { return v > below && v <= bounds[i]; });
    CHECK(histogram.counts()[i] == static_cast<std::uint64_t>(inside));
    below = bounds[i];
  }
}

TEST_CASE("a stream is measured from acceptance to its end", "[histogram]") {
  const auto board = std::make_shared<StatsBoard>();
  const StreamClock::TimePoint start{};
  StreamClock clock(board, start);
  const auto histograms = [&] { return board->read().histograms; };
  const std::vector<Publication> prefill = {kPrefill};
  clock.on_publications(prefill, start + milliseconds(30));
  clock.on_publications(prefill, start + milliseconds(60));
  CHECK(histograms().queue_seconds.count() == 1);
  CHECK(histograms().queue_seconds.sum() == Approx(0.030));
  CHECK(histograms().ttft_seconds.count() == 0);

  const std::vector<Publication> first = {kPrefill, kToken};
  clock.on_publications(first, start + milliseconds(100));
  CHECK(histograms().ttft_seconds.sum() == Approx(0.100));
  CHECK(histograms().itl_seconds.count() == 0);

  // Three at once, heard of 60 ms after the one before: 20 ms each.
  const std::vector<Publication> three = {kToken, kToken, kToken};
  clock.on_publications(three, start + milliseconds(160));
  CHECK(histograms().itl_seconds.count() == 3);
  CHECK(histograms().itl_seconds.sum() == Approx(0.060));
  CHECK(histograms().itl_seconds.counts()[5] == 3);  // in (0.01, 0.02]

  clock.skip_gap();
  const std::vector<Publication> one = {kToken};
  clock.on_publications(one, start + milliseconds(9000));
  CHECK(histograms().itl_seconds.count() == 3);
  clock.on_publications(one, start + milliseconds(9040));
  CHECK(histograms().itl_seconds.count() == 4);
  CHECK(histograms().ttft_seconds.count() == 1);

  DoneEvent done;
  done.usage = {.prompt_tokens = 7, .cached_tokens = 0, .completion_tokens = 6};
  clock.on_end(done, start + milliseconds(9100));
  clock.on_end(ErrorEvent{}, start + milliseconds(9100));
  CHECK(histograms().stream_seconds.count() == 2);
  CHECK(histograms().stream_seconds.sum() == Approx(18.2));
  CHECK(histograms().prompt_tokens.sum() == Approx(7.0));
  CHECK(histograms().answer_tokens.sum() == Approx(6.0));
  CHECK(histograms().answer_tokens.count() == 1);
}

TEST_CASE("the histograms of an engine add up to its counters", "[histogram][engine]") {
  Engine engine(scripted_engine({}));
  constexpr int kStreams = 12;
  std::vector<std::shared_ptr<StreamLog>> logs;
  for (int i = 0; i < kStreams; ++i) {
    GenerateRequest request;
    request.input = std::string("prompt ") + std::to_string(i);
    request.stop.max_new_tokens = 10 + i;
    logs.push_back(std::make_shared<StreamLog>());
    (void)engine.generate(request, recorder(logs.back()), Delivery::kOnReturn);
  }
  for (const auto& log : logs) REQUIRE(log->wait_for_end());
  REQUIRE(eventually([&] { return engine.stats().sessions == 0; }));
  const EngineStats stats = engine.stats();
  const EngineHistograms& all = stats.histograms;
  double answered = 0.0;
  for (const auto& log : logs) answered += log->done().usage.completion_tokens;
  CHECK(all.answer_tokens.count() == kStreams);
  CHECK(all.answer_tokens.sum() == Approx(answered));
  CHECK(all.queue_seconds.count() == kStreams);
  CHECK(all.ttft_seconds.count() == kStreams);
  CHECK(all.stream_seconds.count() == kStreams);
  CHECK(all.stream_seconds.sum() >= all.ttft_seconds.sum());
  CHECK(all.ttft_seconds.sum() >= all.queue_seconds.sum());
  // Every token but a stream's first, and those that came with the first.
  CHECK(all.itl_seconds.count() <= static_cast<std::uint64_t>(answered) - kStreams);
  CHECK(all.itl_seconds.count() > 0);
  CHECK(all.step_seconds.count() == stats.scheduler.steps);
  CHECK(all.step_tokens.count() == stats.scheduler.steps);
  CHECK(all.step_tokens.sum() >=
        static_cast<double>(stats.scheduler.prompt_tokens) + answered - kStreams);
}

TEST_CASE("a device of the backend can be asked after", "[engine]") {
  ScriptedEngineOptions options;
  CHECK(Engine(scripted_engine(options)).devices().empty());
  PreparedEngine prepared = scripted_engine(options);
  struct WithDevice final : Backend {
    explicit WithDevice(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}
    void allocate_pool(const KvPoolShape& shape) override { inner_->allocate_pool(shape); }
    StepResult step(const StepBatch& batch) noexcept override { return inner_->step(batch); }
    BackendMemory memory() const override { return {.weights_bytes = 5}; }
    std::string description() const override { return "with a device"; }
    DeviceProbe device_probe() const override {
      return [] { return std::vector<DeviceUsage>{{0, "a device", 0.25, 10, 100}}; };
    }
    std::unique_ptr<Backend> inner_;
  };
  prepared.make_backend = [make = prepared.make_backend] {
    return std::make_unique<WithDevice>(make());
  };
  Engine engine(std::move(prepared));
  REQUIRE(engine.devices().size() == 1);
  CHECK(engine.devices()[0].name == "a device");
  CHECK(engine.stats().memory.weights_bytes == 5);
}
