#include "web/stats_feed.hpp"

#include <algorithm>
#include <utility>

#include "web/stats_json.hpp"

namespace sluice::web {
namespace {

constexpr std::chrono::seconds kPatience{3};  // with an engine that does not answer

/// Where the engine's answer arrives, also when nobody waits any more.
struct Answer {
  std::mutex mutex;
  std::condition_variable arrived;
  std::optional<EngineView> view;
};

}  // namespace

void StatsFeed::subscribe(std::weak_ptr<StatsSink> sink) {
  const std::shared_ptr<StatsSink> subscriber = sink.lock();
  const std::lock_guard lock(mutex_);
  if (stopping_ || !subscriber) return;
  sinks_.emplace(subscriber.get(), std::move(sink));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void StatsFeed::unsubscribe(const StatsSink* sink) {
  const std::lock_guard lock(mutex_);
  sinks_.erase(sink);
}

void StatsFeed::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    sinks_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StatsFeed::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (sinks_.empty()) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    if (auto view = ask()) {
      auto snapshot = std::make_shared<StatsSnapshot>();
      // A scheduler that was replaced counts anew.
      if (!view->steps.empty() && view->steps.back().number < seen_step_) seen_step_ = 0;
      snapshot->seen_step = seen_step_;
      snapshot->stats = service_.stats();
      snapshot->fields = stats_fields(snapshot->stats, *view, seen_step_);
      for (const StepView& step : view->steps) seen_step_ = std::max(seen_step_, step.number);
      for (StreamView& stream : view->streams) {
        snapshot->held.emplace(stream.sequence, std::move(stream.held));
      }
      snapshot->view = std::move(*view);
      tell_all(snapshot);
    }
    lock.lock();
    changed_.wait_for(lock, interval_, [this] { return stopping_; });
  }
}

std::optional<EngineView> StatsFeed::ask() {
  const auto answer = std::make_shared<Answer>();
  service_.inspect([answer](EngineView view) {
    {
      const std::lock_guard lock(answer->mutex);
      answer->view = std::move(view);
    }
    answer->arrived.notify_all();
  });
  std::unique_lock lock(answer->mutex);
  answer->arrived.wait_for(lock, kPatience, [&] { return answer->view.has_value(); });
  return std::move(answer->view);
}

/// Under the lock, so that nobody hears anything after unsubscribe() or stop(). A sink whose last
/// owner this turns out to be must not die here: it would unsubscribe itself.
void StatsFeed::tell_all(const StatsPtr& stats) {
  std::vector<std::shared_ptr<StatsSink>> listeners;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, sink] : sinks_) {
    if (auto listener = sink.lock()) {
      listener->on_stats(stats);
      listeners.push_back(std::move(listener));
    }
  }
}

}  // namespace sluice::web
