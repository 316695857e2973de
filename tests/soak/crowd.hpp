// Many listeners at once, each doing what real ones do: they go away, cancel, pause, change their
// mind, read slowly, lose their handle. One thread drives it, at random and from a seed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "actors/stream_service.hpp"
#include "tests/soak/listener.hpp"

namespace sluice::soak {

/// Where streams come from.
struct Prompt {
  std::string text;
  Position longest = 0;  ///< output tokens that the reference reaches
  std::shared_ptr<const Reference> reference;
};

using Random = std::mt19937_64;

struct CrowdOptions {
  std::size_t streams = 1000;           ///< at the same time
  bool any_temperature = true;          ///< false: greedy, where the temperature changes the text
  std::vector<std::string> stop_texts;  ///< some streams stop at some of these
  std::function<Prompt(Random&)> next_prompt;
};

class Crowd {
 public:
  using Clock = Listener::Clock;

  Crowd(StreamService& service, CrowdOptions options, Faults& faults, std::uint64_t seed);

  /// Visits every listener once: starts, acknowledges, disturbs, replaces those that are through.
  void turn();
  /// No new streams, no disturbances; pauses end. True when the last stream has its end.
  bool drain();
  /// Streams that end by themselves, for a service that is about to go.
  void fill();
  /// After the service is gone: everybody who stayed must have an end.
  void expect_all_ended();

  std::int64_t handlers_alive() const { return alive_; }
  std::uint64_t started() const { return started_; }
  const std::map<std::string, std::uint64_t>& outcomes() const { return outcomes_; }
  const std::map<std::string, std::uint64_t>& deeds() const { return deeds_; }
  double slowest_seconds() const { return slowest_seconds_; }

 private:
  struct Place {
    std::shared_ptr<Listener> listener;  ///< none: free
    StreamHandle handle;
    bool acknowledges = false;
    unsigned laziness = 1;  ///< acknowledges in one of so many turns
    Position longest = 0;
    bool undisturbed = false;
    bool paused = false;
    Clock::time_point next_deed;
  };

  void start(Place& place);
  GenerateRequest make_request(const Prompt& prompt);
  StreamChanges make_changes(const Place& place);
  void disturb(Place& place, Clock::time_point now);
  void acknowledge(const Place& place);
  void finish(Place& place);
  std::uint64_t dice(std::uint64_t sides) { return random_() % sides; }
  std::vector<StopString> some_stops();

  StreamService& service_;
  CrowdOptions options_;
  Faults& faults_;
  Random random_;
  std::atomic<std::int64_t> alive_{0};
  std::vector<Place> places_;
  std::uint64_t started_ = 0;
  std::map<std::string, std::uint64_t> outcomes_;
  std::map<std::string, std::uint64_t> deeds_;
  double slowest_seconds_ = 0;
};

}  // namespace sluice::soak
