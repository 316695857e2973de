// Every reason for an end at every moment of a stream's life: one terminal event, everything that
// may be shown before it, all blocks back, and the neighbour none the wiser.
#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/actors/alone.hpp"
#include "tests/actors/virtual_engine.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

enum class Moment { kQueued, kPrefill, kFirstToken, kHeldBack, kMidCodePoint, kPaused, kClosing };
enum class Reason {
  kCancel,
  kListenerGone,
  kHandleDropped,
  kTimeLimit,
  kMaximum,
  kBackendLost,
  kSliceFails,
  kSessionKilled,
  kHandlerThrows,
  kShutdown
};

constexpr std::array kMoments{Moment::kQueued,   Moment::kPrefill,      Moment::kFirstToken,
                              Moment::kHeldBack, Moment::kMidCodePoint, Moment::kPaused,
                              Moment::kClosing};
constexpr std::array kReasons{Reason::kCancel,     Reason::kListenerGone,  Reason::kHandleDropped,
                              Reason::kTimeLimit,  Reason::kMaximum,       Reason::kBackendLost,
                              Reason::kSliceFails, Reason::kSessionKilled, Reason::kHandlerThrows,
                              Reason::kShutdown};

constexpr std::chrono::hours kTimeLimit{1};
constexpr std::string_view kOutput = "ab\xC3\xA9";  // repeated for ever
constexpr std::size_t kPromptTokens = 41;

/// What so many tokens show when nothing of them is cut.
std::string text_of(std::size_t tokens) {
  std::string text;
  for (std::size_t i = 0; i < tokens; ++i) text += kOutput[i % kOutput.size()];
  if (!text.empty() && text.back() == '\xC3') text.replace(text.size() - 1, 1, "\xEF\xBF\xBD");
  return text;
}

/// What the end is called; several where it depends on how far the stream has come.
bool is_right_outcome(Reason reason, Moment moment, const std::string& outcome) {
  if (moment == Moment::kClosing) return outcome == "max_new_tokens";  // decided already
  switch (reason) {
    case Reason::kCancel:
      return outcome == "cancelled";
    case Reason::kListenerGone:
      return outcome.empty();
    case Reason::kHandleDropped:
    case Reason::kMaximum:
      return outcome == "max_new_tokens";
    case Reason::kTimeLimit:
      return outcome == "time_limit";
    case Reason::kBackendLost:
      return outcome == "error:backend_failed";
    case Reason::kSliceFails:
      return outcome == "error:generation_failed";
    case Reason::kSessionKilled:
    case Reason::kHandlerThrows:
      return outcome == "error:internal";
    case Reason::kShutdown:
      return outcome == "cancelled" || outcome == "error:shutting_down";
  }
  return false;
}

class Scene {
 public:
  Scene(Moment moment, Reason reason)
      : moment_(moment), reason_(reason), engine_(engine_options()) {
    open_neighbour();
    open_stream();
    reach_the_moment();
    end_it();
    let_everything_happen();
  }

  void check() {
    const StreamLog& log = *stream_.log;
    CHECK(is_right_outcome(reason_, moment_, log.outcome()));
    if (reason_ == Reason::kListenerGone && moment_ != Moment::kClosing) {
      CHECK(log.terminals() == 0);
    } else {
      CHECK(log.sound());
    }
    CHECK(log.wait_for_destruction());
    check_text(log);
    if (reason_ == Reason::kBackendLost || reason_ == Reason::kShutdown) {
      CHECK(neighbour_.log->sound());
    } else {
      CHECK(neighbour_.log->outcome() == "max_new_tokens");
      CHECK(neighbour_.log->text() == text_alone(quiet_engine(), neighbour_request()));
    }
    const EngineStats stats = engine_.board->read();
    CHECK(stats.sessions == 0);
    CHECK(stats.kv.used == 0);
    CHECK(stats.kv.sequences == 0);
    CHECK(stats.scheduler.running == 0);
    CHECK(stats.scheduler.waiting == 0);
  }

 private:
  VirtualEngineOptions engine_options() const {
    VirtualEngineOptions options;
    options.max_running = moment_ == Moment::kQueued ? 1 : 6;
    options.script = [endless = endless_script(),
                      failing = slice_fails_](std::span<const TokenId> tokens) -> TokenId {
      if (tokens[1] != 'T') return endless(tokens);
      if (*failing) return -1;
      return static_cast<unsigned char>(kOutput[(tokens.size() - kPromptTokens) % kOutput.size()]);
    };
    return options;
  }
  static PreparedEngine quiet_engine() {
    ScriptedEngineOptions options;
    options.context = VirtualEngine::kContext;
    return scripted_engine(options);
  }
  static GenerateRequest neighbour_request() {
    GenerateRequest request;
    request.input = "neighbour";
    request.stop.max_new_tokens = 60;
    return request;
  }

  /// Acknowledges only when told, so that it can stand still in the only place there is.
  void open_neighbour() {
    neighbour_ = engine_.open(neighbour_request(), Delivery::kAcknowledged);
    engine_.run();
    REQUIRE(neighbour_.log->ids().size() == 4);
  }

  void open_stream() {
    GenerateRequest request;
    request.input = std::string(kPromptTokens - 1, 'T');
    request.stop.max_new_tokens = moment_ == Moment::kClosing ? 3 : 50;
    if (reason_ == Reason::kTimeLimit) request.stop.time_limit = kTimeLimit;
    if (moment_ == Moment::kHeldBack) {
      request.stop.stop_strings = {{.text = "b\xC3\xA9"
                                            "ab\xC3\xA9X"}};  // never whole
    }
    stream_ = engine_.open(request, Delivery::kAcknowledged, [this](EventHandler inner) {
      return [inner = std::move(inner), throws = handler_throws_](const Event& event) {
        inner(event);
        if (*throws && !is_terminal(event)) throw std::runtime_error("the listener broke");
      };
    });
  }

  void reach_the_moment() {
    const auto phase = [this] {
      const auto& machine = stream_.state().machine;
      return machine && stream_.state().started ? machine->phase() : SessionPhase::kQueued;
    };
    const auto held = [this] { return stream_.state().machine->held_back_bytes(); };
    const auto tokens = [this] { return stream_.state().machine->generated_tokens().size(); };
    const auto acknowledge = [this] { stream_.handle.delivered(stream_.log->last_number()); };
    switch (moment_) {
      case Moment::kQueued:
        engine_.run();
        REQUIRE(engine_.board->read().scheduler.waiting == 1);
        break;
      case Moment::kPrefill:
        REQUIRE(engine_.run_until([&] { return phase() == SessionPhase::kPrefill; }));
        break;
      case Moment::kFirstToken:
        REQUIRE(engine_.run_until([&] { return stream_.log->ids().size() == 1; }));
        break;
      case Moment::kHeldBack:
        REQUIRE(engine_.run_until([&] { return phase() == SessionPhase::kDecode && held() >= 4; }));
        break;
      case Moment::kMidCodePoint:
        REQUIRE(
            engine_.run_until([&] { return phase() == SessionPhase::kDecode && tokens() == 3; }));
        REQUIRE(held() == 1);
        break;
      case Moment::kPaused:
        REQUIRE(engine_.run_until([&] { return stream_.log->ids().size() == 2; }));
        stream_.handle.pause();
        engine_.run();
        acknowledge();
        engine_.run();
        REQUIRE(phase() == SessionPhase::kPaused);
        break;
      case Moment::kClosing:
        engine_.run();
        REQUIRE(stream_.log->terminals() == 1);
        REQUIRE(phase() == SessionPhase::kFlushing);
        break;
    }
  }

  void end_it() {
    switch (reason_) {
      case Reason::kCancel:
        return stream_.handle.cancel("test");
      case Reason::kListenerGone:
        return stream_.handle.listener_gone();
      case Reason::kHandleDropped:
        stream_.handle.resume();
        stream_.handle = {};
        return;
      case Reason::kTimeLimit:
        engine_.scheduler().advance_time(kTimeLimit + std::chrono::seconds(1));
        return;
      case Reason::kMaximum:
        return stream_.handle.change({.max_new_tokens = 1});
      case Reason::kBackendLost:
        *engine_.fatal = 1;
        return;
      case Reason::kSliceFails:
        *slice_fails_ = true;
        return;
      case Reason::kSessionKilled:
        return caf::anon_send_exit(stream_.session, caf::exit_reason::kill);
      case Reason::kHandlerThrows:
        *handler_throws_ = true;
        return;
      case Reason::kShutdown:
        return engine_.begin_stop();
    }
  }

  /// Everybody acknowledges and goes on until nothing more comes of it.
  void let_everything_happen() {
    engine_.run();
    if (reason_ == Reason::kShutdown) engine_.run_out();
    if (reason_ != Reason::kTimeLimit) stream_.handle.resume();
    for (int round = 0; round < 100; ++round) {
      stream_.handle.delivered(stream_.log->last_number());
      neighbour_.handle.delivered(neighbour_.log->last_number());
      engine_.run();
    }
    stream_.session = neighbour_.session = nullptr;
  }

  void check_text(const StreamLog& log) const {
    const std::size_t tokens = static_cast<std::size_t>(
        std::ranges::count_if(log.ids(), [](TokenId id) { return id != kNoToken; }));
    const std::string whole = text_of(tokens);
    const std::string outcome = log.outcome();
    const bool broken_off = outcome.empty() || outcome == "error:internal";
    if (broken_off) {  // what was held back went with the session
      CHECK(whole.starts_with(log.text()));
    } else {
      CHECK(log.text() == whole);
    }
    if (!outcome.empty() && !outcome.starts_with("error")) {
      CHECK(log.done().usage.completion_tokens == static_cast<Position>(tokens));
    }
  }

  Moment moment_;
  Reason reason_;
  std::shared_ptr<bool> slice_fails_ = std::make_shared<bool>(false);
  std::shared_ptr<bool> handler_throws_ = std::make_shared<bool>(false);
  VirtualEngine engine_;
  VirtualStream neighbour_;
  VirtualStream stream_;
};

TEST_CASE("every reason for an end at every moment", "[delivery]") {
  for (const Moment moment : kMoments) {
    for (const Reason reason : kReasons) {
      INFO("moment " << static_cast<int>(moment) << " reason " << static_cast<int>(reason));
      Scene(moment, reason).check();
    }
  }
}

}  // namespace
