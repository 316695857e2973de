#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <future>
#include <map>
#include <stdexcept>

#include "bench/ways/collector.hpp"
#include "bench/ways/ways.hpp"
#include "embed/engine_actor.hpp"

namespace sluice::bench {
namespace {

caf::actor_system_config& tuned(caf::actor_system_config& settings) {
  v0::tune(settings);
  settings.set("scheduler.max-threads", std::size_t{2});
  return settings;
}

/// Starts all requests when it starts and ends after the last end.
class Crowd final : public v0::SinkRef::base {
 public:
  Crowd(caf::actor_config& config, v0::EngineRef engine, const std::vector<v0::Request>* requests,
        std::promise<std::vector<Collector>>* result)
      : typed_event_based_actor(config),
        engine_(std::move(engine)),
        requests_(*requests),
        result_(*result) {}

 protected:
  behavior_type make_behavior() override {
    open_ = requests_.size();
    for (const v0::Request& request : requests_) {
      // Answers come in the order of the questions, and so do the ids.
      this->request(engine_, caf::infinite, v0::generate_atom::value, request, v0::SinkRef(this))
          .then([](const v0::StreamRef&) {});
    }
    return {[this](v0::event_atom, v0::StreamId stream, const v0::Event& event) {
      if (by_id_[stream].add(event) && --open_ == 0) finish();
    }};
  }

 private:
  void finish() {
    std::vector<Collector> streams;
    for (auto& [id, collector] : by_id_) streams.push_back(std::move(collector));
    result_.set_value(std::move(streams));
    engine_ = nullptr;
    quit();
  }

  v0::EngineRef engine_;
  const std::vector<v0::Request>& requests_;
  std::promise<std::vector<Collector>>& result_;
  std::map<v0::StreamId, Collector> by_id_;  ///< in the order of the requests
  std::size_t open_ = 0;
};

class CafWay final : public Way {
 public:
  explicit CafWay(PreparedEngine prepared)
      : system_(tuned(settings_)),
        engine_(
            embed::spawn_engine(system_, [prepared = std::move(prepared)]() { return prepared; })) {
    caf::scoped_actor self(system_);
    self->request(engine_, caf::infinite, v0::ready_atom::value)
        .receive([](const v0::Info&) {},
                 [](const caf::error& error) { throw std::runtime_error(v0::describe(error)); });
  }
  ~CafWay() override { caf::anon_send_exit(engine_, caf::exit_reason::user_shutdown); }
  std::string_view name() const override { return "caf"; }

  WayResult run(const std::vector<v0::Request>& requests) override {
    const auto begin = std::chrono::steady_clock::now();
    std::promise<std::vector<Collector>> result;
    system_.spawn<Crowd>(engine_, &requests, &result);
    const std::vector<Collector> streams = result.get_future().get();
    return result_of(streams, std::chrono::steady_clock::now() - begin);
  }

 private:
  caf::actor_system_config settings_;
  caf::actor_system system_;
  v0::EngineRef engine_;
};

}  // namespace

std::unique_ptr<Way> make_caf_way(PreparedEngine prepared) {
  return std::make_unique<CafWay>(std::move(prepared));
}

}  // namespace sluice::bench
