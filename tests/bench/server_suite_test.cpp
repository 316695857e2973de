#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/server/stream_client.hpp"
#include "bench/server/watched_backend.hpp"
#include "engine/base/error.hpp"
#include "tests/support/stub_service.hpp"
#include "web/server.hpp"

using namespace sluice;
using namespace sluice::bench;

namespace {

/// Takes a given time for a step.
class SlowBackend final : public Backend {
 public:
  explicit SlowBackend(std::chrono::milliseconds time) : time_(time) {}
  void allocate_pool(const KvPoolShape&) override {}
  StepResult step(const StepBatch&) noexcept override {
    std::this_thread::sleep_for(time_);
    return {};
  }
  BackendMemory memory() const override { return {}; }
  std::string description() const override { return "slow"; }

 private:
  std::chrono::milliseconds time_;
};

StepBatch batch_of(std::size_t slices, std::size_t tokens) {
  StepBatch batch;
  batch.slices.resize(slices);
  for (StepSlice& slice : batch.slices) {
    slice.tokens.resize(tokens);
    slice.sample = true;
  }
  return batch;
}

}  // namespace

TEST_CASE("the client counts the tokens and frames of every stream") {
  test::StubService service(16, 0);
  web::ServerOptions options;
  options.port = 0;
  web::Server server(service, options);
  server.start();
  const std::vector<std::string> requests = {R"({"type":"generate","id":"a","prompt":"count 5"})",
                                             R"({"type":"generate","id":"a","prompt":"count 12"})"};
  const ClientRun run = run_streams(server.port(), requests);
  REQUIRE(run.streams.size() == 2);
  CHECK(run.streams[0].failure.empty());
  CHECK(run.streams[0].tokens == 5);
  CHECK(run.streams[1].tokens == 12);
  CHECK(run.streams[1].frames.size() <= 12);
  CHECK(run.streams[1].messages >= run.streams[1].frames.size() + 2);  // hello or accepted, done
  const ClientRun failed =
      run_streams(server.port(), {R"({"type":"generate","id":"a","prompt":"fail 3"})"});
  CHECK(failed.streams[0].tokens == 3);
  CHECK_FALSE(failed.streams[0].failure.empty());
  CHECK(time_request(server.port(), "/health") > 0);
  CHECK(time_request(server.port(), "/no-such-page") < 0);
}

TEST_CASE("an answer that fails and a server that is not there are told") {
  CHECK_THROWS_AS(run_streams(1, {"{}"}), Error);
  CHECK(time_request(1, "/health") < 0);
}

TEST_CASE("a watched backend tells steps from what is between them") {
  auto watch = std::make_shared<StepWatch>();
  const auto backend = make_watched_backend(
      [] { return std::make_unique<SlowBackend>(std::chrono::milliseconds(4)); }, watch);
  backend->step(batch_of(2, 9));  // a prompt: begins no pair
  for (int i = 0; i < 3; ++i) {
    backend->step(batch_of(2, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  backend->step(batch_of(1, 1));  // another number of slices: the end of no pair
  const StepTimes times = watch->times();
  CHECK(times.steps == 5);
  CHECK(times.pairs == 2);
  CHECK(times.step_seconds >= 0.020);
  CHECK(times.between_seconds >= 0.004);
  CHECK(times.paired_step_seconds >= 0.008);
  CHECK(times.paired_step_seconds < times.step_seconds);
  watch->reset();
  CHECK(watch->times().steps == 0);
}

TEST_CASE("a backend without work draws its token for every slice that asks") {
  const auto backend = make_null_backend(97);
  StepBatch batch = batch_of(3, 1);
  batch.slices[1].sample = false;
  const StepResult result = backend->step(batch);
  REQUIRE(result.slices.size() == 3);
  CHECK(result.slices[0].token->id == 97);
  CHECK_FALSE(result.slices[1].token.has_value());
  CHECK(result.slices[2].token->id == 97);
}
