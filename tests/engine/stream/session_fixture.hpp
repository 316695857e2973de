// A session machine with a listener that checks the protocol on every event: consecutive
// numbers, exactly one terminal event and nothing after it, pieces that make up the text, every
// token once; and on every output: credit within the window, one removal, one closing.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/stream/session_machine.hpp"
#include "engine/stream/stop_policy.hpp"
#include "tests/engine/stream/table_tokenizer.hpp"

namespace sluice::test {

using namespace std::chrono_literals;
using TimePoint = SessionMachine::Clock::time_point;

class SessionFixture {
 public:
  SessionFixture(SessionConfig config, std::vector<std::string> tokens,
                 std::set<TokenId> special = {})
      : window(config.credit_window),
        with_scheduler(window),
        machine(std::move(config),
                std::make_shared<TableTokenizer>(std::move(tokens), std::move(special)), now) {}

  // -- inputs ---------------------------------------------------------------------------------

  void start() { take(machine.start()); }
  void prefill(Position done, Position total, Position cached = 0) {
    Publication p;
    p.kind = Publication::Kind::kPrefill;
    p.done = done;
    p.total = total;
    p.cached = cached;
    publish({p});
  }
  void token(TokenId id, float top_probability = 1.0F) { publish({drawn(id, top_probability)}); }
  void tokens(const std::vector<TokenId>& ids) {
    std::vector<Publication> list;
    for (const TokenId id : ids) list.push_back(drawn(id));
    publish(list);
  }
  void happens(Publication::Kind kind, std::string message = {}) {
    Publication p;
    p.kind = kind;
    p.message = std::move(message);
    publish({p});
  }
  void publish(const std::vector<Publication>& list) {
    for (const Publication& p : list) {
      if (p.kind == Publication::Kind::kToken) --with_scheduler;
    }
    take(machine.on_publications(list, now));
  }
  void reject(RejectReason reason) { take(machine.on_rejected(reason, now)); }
  void fail(std::string code) { take(machine.fail(std::move(code), "It broke.", now)); }
  void cancel() { take(machine.cancel("by the user", now)); }
  SessionMachine::Output change(const StreamChanges& changes) {
    SessionMachine::Output out = machine.change(changes, now);
    take(out);
    return out;
  }
  void pause() { take(machine.pause()); }
  void resume() { take(machine.resume()); }
  void gone() { take(machine.on_listener_gone(now)); }
  void tick() { take(machine.on_tick(now)); }
  void deliver(std::uint64_t number) { take(machine.on_delivered(number)); }
  void deliver_all() { deliver(last_number()); }
  void pass(std::chrono::milliseconds time) { now += time; }

  // -- what came out --------------------------------------------------------------------------

  std::string text() const {
    std::string out;
    for (const Event& event : events) {
      if (const auto* token = std::get_if<TokenEvent>(&event)) out += token->text;
    }
    return out;
  }
  std::vector<TokenId> ids() const {
    std::vector<TokenId> out;
    for (const Event& event : events) {
      const auto* token = std::get_if<TokenEvent>(&event);
      if (token == nullptr) continue;
      for (const TokenPiece& piece : token->pieces) {
        if (piece.id != kNoToken) out.push_back(piece.id);
      }
    }
    return out;
  }
  bool ended() const { return !events.empty() && is_terminal(events.back()); }
  /// "done:end_token", "error:queue_full", or "none".
  std::string ending() const {
    if (!ended()) return "none";
    if (const auto* done = std::get_if<DoneEvent>(&events.back())) {
      return "done:" + std::string(name(done->rule));
    }
    return "error:" + std::get<ErrorEvent>(events.back()).code;
  }
  const DoneEvent& done() const { return std::get<DoneEvent>(events.back()); }
  std::uint64_t last_number() const { return events.empty() ? 0 : number_of(events.back()); }
  int heartbeats() const {
    int count = 0;
    for (const Event& event : events) count += std::holds_alternative<HeartbeatEvent>(event);
    return count;
  }

  TimePoint now{1000s};
  std::vector<Event> events;
  int removed = 0;
  int closed = 0;
  std::int32_t last_credit = 0;
  std::int32_t window;
  std::int32_t with_scheduler;  ///< granted and not drawn
  SessionMachine machine;

 private:
  static Publication drawn(TokenId id, float top_probability = 1.0F) {
    Publication p;
    p.token = {id, static_cast<float>(-id), top_probability, {{id, static_cast<float>(-id)}}};
    return p;
  }

  void take(SessionMachine::Output out) {
    for (Event& event : out.events) check_event(event);
    for (Event& event : out.events) events.push_back(std::move(event));
    removed += out.remove_sequence ? 1 : 0;
    closed += out.closed ? 1 : 0;
    REQUIRE(out.credit >= 0);
    last_credit = out.credit;
    with_scheduler += out.credit;
    REQUIRE(with_scheduler <= window);
    REQUIRE(removed <= 1);
    REQUIRE(closed <= 1);
    REQUIRE((machine.phase() == SessionPhase::kClosed) == (closed == 1));
    if (ended()) {
      REQUIRE(out.credit == 0);
      REQUIRE(machine.next_deadline() == TimePoint::max());
    }
  }

  void check_event(const Event& event) {
    REQUIRE(closed == 0);
    REQUIRE_FALSE(over_);
    over_ = is_terminal(event);
    if (std::holds_alternative<HeartbeatEvent>(event)) {
      REQUIRE(number_of(event) == next_number_ - 1);
      return;
    }
    REQUIRE(number_of(event) == next_number_++);
    const auto* token = std::get_if<TokenEvent>(&event);
    if (token == nullptr) return;
    REQUIRE_FALSE(token->pieces.empty());
    std::string joined;
    for (const TokenPiece& piece : token->pieces) {
      joined += piece.text;
      if (piece.id == kNoToken) continue;
      REQUIRE(piece.logprob == static_cast<float>(-piece.id));
      REQUIRE(piece.top.size() == 1);
      REQUIRE(piece.top[0].id == piece.id);
    }
    REQUIRE(joined == token->text);
  }

  std::uint64_t next_number_ = 1;
  bool over_ = false;
};

}  // namespace sluice::test
