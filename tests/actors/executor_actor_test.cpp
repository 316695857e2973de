// The executor with a backend whose steps go on elsewhere, one message at a time.
#include "actors/executor_actor.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/actors/coordinated_system.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

/// What the device of the test does.
struct Device {
  int looks_until_done = 0;
  std::string fatal;
  int begun = 0;
  int looks = 0;
};

class FarBackend final : public Backend {
 public:
  explicit FarBackend(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  void allocate_pool(const KvPoolShape&) override {}
  StepResult step(const StepBatch&) noexcept override { return {}; }
  void begin_step(const StepBatch& batch) noexcept override {
    ++device_->begun;
    number_ = batch.number;
  }
  std::optional<StepResult> end_step(std::chrono::microseconds) noexcept override {
    ++device_->looks;
    if (device_->looks_until_done-- > 0) return std::nullopt;
    StepResult result;
    result.number = number_;
    result.fatal = device_->fatal;
    return result;
  }
  BackendMemory memory() const override { return {}; }
  std::string description() const override { return "far away"; }

 private:
  std::shared_ptr<Device> device_;
  std::uint64_t number_ = 0;
};

/// Asks the executor and remembers in which order the answers come.
struct Fixture : CoordinatedSystem {
  std::shared_ptr<Device> device = std::make_shared<Device>();
  ExecutorRef executor;
  caf::actor asker;
  std::vector<std::string> heard;

  Fixture() {
    ExecutorParts parts;
    parts.make_backend = [device = device] { return std::make_unique<FarBackend>(device); };
    executor = system().spawn<ExecutorActor>(std::move(parts));
    // An argument keeps CAF from binding a reference to the arguments that it has not.
    asker = system().spawn(
        [this](caf::event_based_actor* self, int) -> caf::behavior {
          return {
              [this, self](prepare_atom) {
                self->request(executor, caf::infinite, prepare_atom::value)
                    .then([this](const BackendReport& report) {
                      heard.push_back(report.description);
                    });
              },
              [this, self](step_atom, std::uint64_t number) {
                StepBatch batch;
                batch.number = number;
                self->request(executor, caf::infinite, step_atom::value, batch)
                    .then(
                        [this](const StepResult& result) {
                          heard.push_back("step " + std::to_string(result.number) + result.fatal);
                        },
                        [this](const caf::error&) { heard.push_back("no answer"); });
              },
              [this, self](inspect_atom) {
                self->request(executor, caf::infinite, inspect_atom::value)
                    .then([this](const ExecutorView&) { heard.push_back("view"); });
              },
          };
        },
        0);
    caf::anon_send(asker, prepare_atom::value);
    run();
    REQUIRE(heard == std::vector<std::string>{"far away"});
    heard.clear();
  }
  ~Fixture() {
    caf::anon_send_exit(executor, caf::exit_reason::kill);
    caf::anon_send_exit(asker, caf::exit_reason::kill);
    run();
  }
};

}  // namespace

TEST_CASE("the executor answers while a device is at work", "[actors]") {
  Fixture f;
  f.device->looks_until_done = 5;
  caf::anon_send(f.asker, step_atom::value, std::uint64_t{7});
  caf::anon_send(f.asker, inspect_atom::value);
  f.run();
  CHECK(f.heard == std::vector<std::string>{"view", "step 7"});
  CHECK(f.device->looks == 6);
  f.device->looks_until_done = 0;
  caf::anon_send(f.asker, step_atom::value, std::uint64_t{8});
  f.run();
  CHECK(f.heard.back() == "step 8");
  CHECK(f.device->begun == 2);
}

TEST_CASE("a device that is lost ends the executor after its answer", "[actors]") {
  Fixture f;
  f.device->looks_until_done = 2;
  f.device->fatal = ": lost";
  caf::anon_send(f.asker, step_atom::value, std::uint64_t{1});
  caf::anon_send(f.asker, step_atom::value, std::uint64_t{2});
  f.run();
  CHECK(f.heard ==
        std::vector<std::string>{"step 2the executor is at work on another step", "step 1: lost"});
  CHECK(f.device->begun == 1);
}

TEST_CASE("an executor that ends during a step looks no more", "[actors]") {
  Fixture f;
  f.device->looks_until_done = 1000000;
  caf::anon_send(f.asker, step_atom::value, std::uint64_t{1});
  for (int i = 0; i < 20; ++i) f.scheduler().try_run_once();
  CHECK(f.device->looks > 0);
  caf::anon_send_exit(f.executor, caf::exit_reason::kill);
  f.run();
  const int looks = f.device->looks;
  caf::anon_send(f.asker, inspect_atom::value);
  f.run();
  CHECK(f.device->looks == looks);
  CHECK(f.device.use_count() <= 2);  // the backend is gone: the fixture's, the parts'
}
