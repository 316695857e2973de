// What the machine is doing, a few times a second, for the connections that asked for it.
//
// Without a subscriber nothing is asked of the engine and nothing runs. With any number of them
// the engine is asked once for each round, on a thread of the feed's own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "actors/stream_service.hpp"

namespace sluice::web {

struct StatsSnapshot {
  std::string fields;  ///< see stats_fields()
  // What they were made of, for those who may not see everything.
  EngineStats stats;
  EngineView view;
  std::uint64_t seen_step = 0;
  std::map<SequenceId, std::string> held;  ///< of every stream; each client sees its own
};
using StatsPtr = std::shared_ptr<const StatsSnapshot>;

/// Takes a snapshot on the feed's thread; must only pass it on to its own.
class StatsSink {
 public:
  virtual ~StatsSink() = default;
  virtual void on_stats(StatsPtr stats) = 0;
};

/// Safe to use from any thread.
class StatsFeed {
 public:
  StatsFeed(StreamService& service, std::chrono::milliseconds interval)
      : service_(service), interval_(interval) {}
  ~StatsFeed() { stop(); }
  StatsFeed(const StatsFeed&) = delete;
  StatsFeed& operator=(const StatsFeed&) = delete;

  /// Does nothing for one that is subscribed, or after stop().
  void subscribe(std::weak_ptr<StatsSink> sink);
  void unsubscribe(const StatsSink* sink);
  /// No sink hears anything after this has returned.
  void stop();

 private:
  void run();
  std::optional<EngineView> ask();
  void tell_all(const StatsPtr& stats);

  StreamService& service_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const StatsSink*, std::weak_ptr<StatsSink>> sinks_;
  bool stopping_ = false;
  std::uint64_t seen_step_ = 0;  ///< of the feed's thread
  std::thread thread_;           ///< from the first subscription on
};

}  // namespace sluice::web
