#include "web/stream_log.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "web/event_json.hpp"

using namespace sluice;
using namespace sluice::web;

namespace {

TokenEvent token(std::uint64_t number, const std::string& text) {
  return {number, text, {{static_cast<TokenId>(number), text, -1.0F, {}}}};
}

StreamLog::Options keeping(std::size_t bytes) {
  StreamLog::Options options;
  options.keeps = true;
  options.max_bytes = bytes;
  return options;
}

std::string text_of(const std::optional<Event>& event) {
  REQUIRE(event);
  REQUIRE(std::holds_alternative<TokenEvent>(*event));
  return std::get<TokenEvent>(*event).text;
}

/// A viewer as the log should see it, and what it has taken.
struct Watcher {
  std::uint64_t n = 0;        // of the last event taken
  std::uint64_t written = 0;  // <= n
  std::string text;           // of the stream, as far as this viewer knows it
};

/// Everything that ever happened, kept for good, and the log's rules said plainly.
struct Model {
  std::vector<std::string> texts{""};  // by event number; "" for accepted and the end
  std::vector<std::size_t> bytes{0};   // by event number
  std::map<ViewerId, Watcher> watchers;
  std::uint64_t acknowledged = 0;
  std::uint64_t seen = 0;
  bool keeps = false;
  std::size_t max_bytes = 0;
  bool ended = false;

  std::uint64_t last() const { return texts.size() - 1; }
  std::string text(std::uint64_t up_to) const {
    std::string all;
    for (std::uint64_t n = 0; n <= up_to; ++n) all += texts[n];
    return all;
  }
  std::uint64_t slowest() const {
    std::uint64_t least = last();
    for (const auto& [id, watcher] : watchers) least = std::min(least, watcher.written);
    return least;
  }
  void settle() {
    std::size_t unseen = 0;
    for (std::uint64_t n = seen + 1; n <= last(); ++n) unseen += bytes[n];
    const bool taken = keeps && (ended || unseen <= max_bytes / 2);
    if (!watchers.empty() || taken) acknowledged = std::max(acknowledged, slowest());
  }
};

class Play {
 public:
  Play(unsigned seed, bool keeps, std::size_t max_bytes, bool beats)
      : random_(seed), beats_(beats), log_({keeps, max_bytes, 400}) {
    model_.keeps = keeps;
    model_.max_bytes = max_bytes;
  }

  void run(int steps) {
    attach(0);
    push(AcceptedEvent{1, "m", 1, 2, 3, 4}, "", 512);
    for (int i = 0; i < steps; ++i) step();
    if (!model_.ended) end();
    for (auto& [id, watcher] : model_.watchers) {
      while (take(id)) {
      }
      CHECK(watcher.n == model_.last());
      CHECK(watcher.text == model_.text(model_.last()));
    }
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  void step() {
    const auto action = below(20);
    if (action < 8) {
      if (model_.ended) return;
      const std::string text(1 + below(30), static_cast<char>('a' + below(26)));
      const TokenEvent event = token(model_.last() + 1, text);
      push(event, text, estimated_json_bytes(event));
    } else if (action == 8) {
      if (!model_.ended && beats_) log_.push(HeartbeatEvent{model_.last(), "decode", 0, 0, 0});
    } else if (action == 9) {
      if (model_.watchers.size() < 4 && model_.keeps) attach(below(model_.last() + 2));
    } else if (action == 10) {
      if (!model_.watchers.empty() && (model_.keeps || model_.watchers.size() > 1)) {
        const ViewerId gone = any_viewer();
        model_.watchers.erase(gone);
        log_.detach(gone);
        model_.settle();
      }
    } else if (action < 16) {
      if (!model_.watchers.empty()) take(any_viewer());
    } else if (action == 19 && below(100) == 0) {
      if (!model_.ended) end();
    } else if (!model_.watchers.empty()) {
      write(any_viewer());
    }
    check();
  }

  ViewerId any_viewer() {
    auto viewer = model_.watchers.begin();
    std::advance(viewer, static_cast<std::ptrdiff_t>(below(model_.watchers.size())));
    return viewer->first;
  }

  void push(Event event, const std::string& text, std::size_t bytes) {
    model_.texts.push_back(text);
    model_.bytes.push_back(bytes);
    model_.ended = is_terminal(event);
    model_.settle();
    log_.push(std::move(event));
    check();
  }

  void end() { push(ErrorEvent{model_.last() + 1, "x", "y"}, "", 512); }

  void attach(std::uint64_t after) {
    const ViewerId id = ++last_viewer_;
    const bool done = log_.attach(id, after);
    std::uint64_t from = std::min(after, model_.last());
    if (model_.ended) from = std::min(from, model_.last() - 1);
    CHECK(done == (from >= log_.forgotten()));
    if (!done) return;
    model_.watchers[id] = {from, from, model_.text(from)};
    model_.seen = std::max(model_.seen, from);
    model_.settle();
  }

  bool take(ViewerId id) {
    Watcher& watcher = model_.watchers[id];
    const auto event = log_.take(id);
    if (!event) {
      CHECK(watcher.n == model_.last());  // nothing is held back
      return false;
    }
    const std::uint64_t number = number_of(*event);
    if (const auto* joined = std::get_if<TokenEvent>(&*event)) {
      CHECK(number == watcher.n + joined->pieces.size());
      watcher.text += joined->text;
    } else if (std::holds_alternative<HeartbeatEvent>(*event)) {
      CHECK(number == watcher.n);
    } else {
      CHECK(number == watcher.n + 1);
    }
    watcher.n = number;
    CHECK(watcher.text == model_.text(watcher.n));
    return true;
  }

  void write(ViewerId id) {
    Watcher& watcher = model_.watchers[id];
    watcher.written += below(watcher.n - watcher.written + 1);
    model_.seen = std::max(model_.seen, watcher.written);
    model_.settle();
    log_.written(id, watcher.written);
  }

  void check() {
    CHECK(log_.last_number() == model_.last());
    CHECK(log_.acknowledged() == model_.acknowledged);
    CHECK(log_.num_viewers() == model_.watchers.size());
    CHECK(log_.ended() == model_.ended);
    const std::uint64_t needless = model_.watchers.empty() ? model_.seen : model_.slowest();
    CHECK(log_.forgotten() <= std::max(needless, forgotten_));
    CHECK(log_.forgotten() >= forgotten_);
    forgotten_ = log_.forgotten();
    if (beats_) return;
    std::size_t bytes = 0;
    for (std::uint64_t n = forgotten_ + 1; n <= model_.last(); ++n) bytes += model_.bytes[n];
    CHECK(log_.bytes() == bytes);
    // Over its size only by what is needed, or by the one event that a log always keeps.
    if (model_.keeps && forgotten_ + 1 < model_.last() && bytes > model_.max_bytes) {
      CHECK(forgotten_ + 1 > needless);
    }
  }

  std::mt19937 random_;
  const bool beats_;
  StreamLog log_;
  Model model_;
  ViewerId last_viewer_ = 0;
  std::uint64_t forgotten_ = 0;
};

}  // namespace

TEST_CASE("stream log gives each viewer what it lacks with waiting tokens joined") {
  StreamLog log(keeping(1 << 20));
  log.attach(7, 0);
  log.push(AcceptedEvent{1, "m", 1, 2, 3, 4});
  log.push(token(2, "On"));
  log.push(token(3, "ce"));
  CHECK(std::holds_alternative<AcceptedEvent>(*log.take(7)));
  CHECK(text_of(log.take(7)) == "Once");
  CHECK_FALSE(log.take(7));
  REQUIRE(log.attach(8, 2));
  CHECK(text_of(log.take(8)) == "ce");
  log.written(7, 3);
  CHECK(log.acknowledged() == 2);  // 8 came with everything up to 2
  log.written(8, 3);
  CHECK(log.acknowledged() == 3);
}

TEST_CASE("stream log keeps only the newest heartbeat and replays none but the last") {
  StreamLog log(keeping(1 << 20));
  log.attach(1, 0);
  log.push(AcceptedEvent{1, "m", 1, 2, 3, 4});
  for (int i = 0; i < 1000; ++i) log.push(HeartbeatEvent{1, "prefill", 0, i, 1000});
  CHECK(log.bytes() < 2000);
  log.take(1);
  CHECK(std::get<HeartbeatEvent>(*log.take(1)).prefill_done == 999);
  log.push(HeartbeatEvent{1, "prefill", 0, 1000, 1000});
  CHECK(std::get<HeartbeatEvent>(*log.take(1)).prefill_done == 1000);
  log.push(token(2, "x"));
  log.push(HeartbeatEvent{2, "paused", 0, 0, 0});

  REQUIRE(log.attach(2, 0));
  CHECK(std::holds_alternative<AcceptedEvent>(*log.take(2)));
  CHECK(text_of(log.take(2)) == "x");
  CHECK(std::get<HeartbeatEvent>(*log.take(2)).phase == "paused");
  CHECK_FALSE(log.take(2));
  REQUIRE(log.attach(3, 2));  // with nothing to replay, the phase
  CHECK(std::get<HeartbeatEvent>(*log.take(3)).phase == "paused");
}

TEST_CASE("stream log that does not keep forgets what is written") {
  StreamLog log({});
  log.attach(1, 0);
  log.push(AcceptedEvent{1, "m", 1, 2, 3, 4});
  log.push(token(2, "x"));
  log.take(1);
  log.written(1, 1);
  CHECK(log.forgotten() == 1);
  CHECK(log.bytes() > 0);
  log.take(1);
  log.written(1, 2);
  CHECK(log.bytes() == 0);
  CHECK(log.acknowledged() == 2);
}

TEST_CASE("stream log follows its rules under random use") {
  for (unsigned seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    const bool keeps = seed % 3 != 0;
    const std::size_t bytes = 700 + 500 * (seed % 7);
    Play(seed, keeps, bytes, seed % 2 == 0).run(400);
  }
}
