// A StreamService without an engine: scripted events on a thread of its own.
//
// The prompt is the script:
//   "count N"   accepted, N tokens "t1 ", "t2 ", ..., done (end_token)
//   "endless"   accepted, tokens until cancelled
//   "refuse"    one error, from within generate()
//   "fail N"    accepted, N tokens, error
//   "beat"      accepted, a heartbeat, one token, done
//   "hush N"    accepted, N heartbeats 20 ms apart, one token, done
// A chat request counts as many tokens as it has messages. Like the engine, it keeps at most
// `window` token events undelivered, honours pause, cancel and listener_gone, and forgets a
// stream when its terminal event has been delivered.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/stream_service.hpp"

namespace sluice::test {

class StubService final : public StreamService {
 public:
  explicit StubService(std::uint64_t window = 16, std::size_t bytes_per_token = 0)
      : window_(window), filler_(bytes_per_token, 'x') {
    info_.model_name = "stub";
    info_.model_summary = "a stub of 0 parameters";
    info_.backend = "none";
    info_.context_length = 512;
    info_.default_max_new_tokens = 128;
    info_.end_tokens = {"<|im_end|>"};
    stats_.ready = true;
    thread_ = std::thread([this] { run(); });
  }

  ~StubService() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  StreamHandle generate(GenerateRequest request, EventHandler on_event,
                        Delivery delivery) override {
    const auto stream = std::make_shared<Stream>();
    stream->needs_delivery = delivery == Delivery::kAcknowledged;
    stream->handler = std::move(on_event);
    read_script(request, *stream);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(std::move(request));
      stream->id = ++last_id_;
    }
    if (stream->refused) {
      stream->handler(ErrorEvent{1, "prompt_too_long", "The prompt is too long."});
      return {};
    }
    {
      const std::lock_guard lock(mutex_);
      streams_[stream->id] = stream;
    }
    changed_.notify_all();
    return {stream->id, std::make_shared<Control>(*this, stream)};
  }

  const ServiceInfo& info() const override { return info_; }
  EngineStats stats() const override {
    const std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    stats.sessions = static_cast<std::int32_t>(streams_.size());
    return stats;
  }

  /// Two sequences, five blocks, one step for each look, and the text "held" held back in all.
  void inspect(std::function<void(EngineView)> done) override {
    EngineView view;
    {
      const std::lock_guard lock(mutex_);
      ++inspections_;
      view.block_size = 16;
      view.blocks = {{1, false, 1}, {1, false, 1}, {2, false, 1}, {0, true, 0}, {0, false, 0}};
      view.sequences = {{1, SequencePhase::kDecode, 0, 20, 21, 3},
                        {2, SequencePhase::kWaiting, 1, 0, 9, 16}};
      for (std::uint64_t step = 1; step <= inspections_; ++step) {
        view.steps.push_back(
            {step, std::chrono::microseconds(1500), {{1, 1, true}, {2, 8, false}}});
      }
      view.actors = {{"supervisor", 0, 2, false}, {"executor", 0, 0, true}};
      for (const auto& [id, stream] : streams_) view.streams.push_back({id, "held"});
    }
    done(std::move(view));
  }
  std::string token_text(TokenId token) const override { return "t" + std::to_string(token); }

  // -- for tests --------------------------------------------------------------------------------

  ServiceInfo& mutable_info() { return info_; }  // before the server starts
  void set_ready(bool ready) {
    const std::lock_guard lock(mutex_);
    stats_.ready = ready;
  }
  std::vector<GenerateRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  /// Changes to running streams, of which the maximum is honoured.
  std::vector<StreamChanges> changes() const {
    const std::lock_guard lock(mutex_);
    return changes_;
  }
  std::size_t live() const {
    const std::lock_guard lock(mutex_);
    return streams_.size();
  }
  /// How often somebody has looked.
  std::uint64_t inspections() const {
    const std::lock_guard lock(mutex_);
    return inspections_;
  }
  std::size_t gone() const {
    const std::lock_guard lock(mutex_);
    return gone_;
  }
  std::size_t paused() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count_if(
        streams_.begin(), streams_.end(), [](const auto& entry) { return entry.second->paused; }));
  }
  /// Token events emitted by all streams so far.
  std::uint64_t emitted() const {
    const std::lock_guard lock(mutex_);
    return emitted_;
  }
  /// Waits until `condition` holds; false after 20 s, which only a failing test reaches.
  template <class Condition>
  bool wait_until(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  /// Waits until every stream has been idle, blocked by its window, for a while.
  bool wait_until_stalled() {
    std::uint64_t before = emitted();
    return wait_until([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return std::exchange(before, emitted()) == before;
    });
  }

 private:
  struct Stream {
    SequenceId id = 0;
    EventHandler handler;
    bool needs_delivery = false;
    bool refused = false;
    bool fails = false;
    bool beats = false;
    std::uint64_t hush = 0;           // heartbeats to come
    std::uint64_t tokens_wanted = 0;  // all below are guarded by the service's mutex
    std::uint64_t tokens = 0;
    std::uint64_t number = 0;  // of the last event
    std::uint64_t delivered = 0;
    std::string cancelled;
    bool paused = false;
    bool ended = false;
  };

  class Control final : public StreamControl {
   public:
    Control(StubService& service, std::shared_ptr<Stream> stream)
        : service_(service), stream_(std::move(stream)) {}
    void cancel(std::string detail) override {
      apply([&] { stream_->cancelled = std::move(detail); });
    }
    void delivered(std::uint64_t number) override {
      apply([&] {
        stream_->delivered = std::max(stream_->delivered, number);
        if (stream_->ended && stream_->delivered >= stream_->number) {
          service_.streams_.erase(stream_->id);
        }
      });
    }
    void listener_gone() override {
      apply([&] {
        service_.gone_ += service_.streams_.erase(stream_->id);
        stream_->ended = true;
      });
    }
    void pause() override {
      apply([&] { stream_->paused = true; });
    }
    void resume() override {
      apply([&] { stream_->paused = false; });
    }
    void change(StreamChanges changes) override {
      apply([&] {
        if (changes.max_new_tokens) {
          stream_->tokens_wanted = static_cast<std::uint64_t>(*changes.max_new_tokens);
        }
        service_.changes_.push_back(std::move(changes));
      });
    }

   private:
    template <class Change>
    void apply(Change change) {
      {
        const std::lock_guard lock(service_.mutex_);
        change();
      }
      service_.changed_.notify_all();
    }
    StubService& service_;
    std::shared_ptr<Stream> stream_;
  };

  static void read_script(const GenerateRequest& request, Stream& stream) {
    if (const auto* messages = std::get_if<std::vector<ChatMessage>>(&request.input)) {
      stream.tokens_wanted = messages->size();
      return;
    }
    const std::string& prompt = std::get<std::string>(request.input);
    const std::size_t space = prompt.find(' ');
    const std::string verb = prompt.substr(0, space);
    const std::uint64_t count =
        space == std::string::npos ? 1 : std::stoull(prompt.substr(space + 1));
    stream.tokens_wanted = verb == "endless" ? UINT64_MAX : count;
    stream.refused = verb == "refuse";
    stream.fails = verb == "fail";
    stream.beats = verb == "beat";
    if (verb == "hush") {
      stream.hush = count;
      stream.tokens_wanted = 1;
    }
  }

  /// The next event of a stream that may have one; empty otherwise.
  std::vector<Event> next(Stream& stream) {
    std::vector<Event> events;
    if (stream.ended) return events;
    if (stream.number == 0) {
      events.push_back(AcceptedEvent{++stream.number, "stub", 3, 128, 512, 7});
      if (stream.beats) events.push_back(HeartbeatEvent{stream.number, "prefill", 0, 1, 3});
      return events;
    }
    if (stream.hush > 0 && stream.cancelled.empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      --stream.hush;
      events.push_back(HeartbeatEvent{stream.number, "prefill", 0, 1, 3});
      return events;
    }
    if (!stream.cancelled.empty() || stream.tokens >= stream.tokens_wanted) {
      stream.ended = true;
      ++stream.number;
      if (stream.fails && stream.cancelled.empty()) {
        events.push_back(ErrorEvent{stream.number, "internal_error", "The stub failed."});
      } else {
        DoneEvent done;
        done.number = stream.number;
        done.rule = stream.cancelled.empty() ? StopRule::kEndToken : StopRule::kCancelled;
        done.detail = stream.cancelled;
        done.usage = {3, 0, static_cast<Position>(stream.tokens)};
        events.push_back(done);
      }
      return events;
    }
    const bool window_full = stream.needs_delivery && stream.number - stream.delivered >= window_;
    if (stream.paused || window_full) return events;
    ++stream.tokens;
    ++emitted_;
    const std::string text = "t" + std::to_string(stream.tokens) + filler_ + " ";
    const auto token = static_cast<TokenId>(stream.tokens % 100000);
    events.push_back(TokenEvent{++stream.number, text, {{token, text, -0.5F, {}}}});
    return events;
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      bool idle = true;
      const auto streams = streams_;  // the map changes while handlers run
      for (const auto& [id, stream] : streams) {
        for (const Event& event : next(*stream)) {
          idle = false;
          lock.unlock();
          stream->handler(event);
          lock.lock();
        }
        if (stream->ended && stream->handler) stream->handler = nullptr;
        if (stream->ended && !stream->needs_delivery) streams_.erase(id);
      }
      if (idle) changed_.wait_for(lock, std::chrono::milliseconds(50));
    }
  }

  const std::uint64_t window_;
  const std::string filler_;
  ServiceInfo info_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<SequenceId, std::shared_ptr<Stream>> streams_;
  std::vector<GenerateRequest> requests_;
  std::vector<StreamChanges> changes_;
  EngineStats stats_;
  SequenceId last_id_ = 0;
  std::uint64_t inspections_ = 0;
  std::uint64_t emitted_ = 0;
  std::size_t gone_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sluice::test
