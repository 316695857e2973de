// A stop rule of the caller as an actor.
#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <map>
#include <new>
#include <utility>

#include "sluice/caf.hpp"

namespace sluice::embed {

struct Ask {
  v0::StopQuestion question;
  v0::StopReply reply;
};

}  // namespace sluice::embed

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::embed::Ask)

namespace sluice::v0 {

namespace {

using embed::Ask;

/// Puts questions to the rule, in the rule's own system, and notices when it dies. The session
/// can't ask by itself: an actor that gets mail from another system's worker would run on it.
using AskerRef =
    caf::typed_actor<caf::reacts_to<judge_atom, Ask>, caf::reacts_to<over_atom, StreamId>>;

class Asker final : public AskerRef::base {
 public:
  Asker(caf::actor_config& config, StopRuleRef rule)
      : typed_event_based_actor(config), rule_(std::move(rule)) {}

 protected:
  behavior_type make_behavior() override {
    set_exit_handler([this](caf::exit_msg& message) { quit(message.reason); });
    set_error_handler([](caf::scheduled_actor*, caf::error&) {});  // of `over`: it may be dead
    set_default_handler([](caf::scheduled_actor*, caf::message_view&) -> caf::result<caf::message> {
      return caf::sec::unexpected_message;
    });
    // A rule that dies between question and answer leaves no other trace.
    set_down_handler([this](caf::down_msg& down) { on_rule_down(down.reason); });
    monitor(rule_);
    return {
        [this](judge_atom, Ask& what) { ask(std::move(what.question), std::move(what.reply)); },
        [this](over_atom, StreamId stream) { send(rule_, over_atom::value, stream); },
    };
  }
  void on_exit() override {
    open_.clear();
    rule_ = nullptr;
  }

 private:
  void ask(StopQuestion question, StopReply reply) {
    const std::uint64_t number = ++last_;
    open_.emplace(number, std::move(reply));
    request(rule_, caf::infinite, judge_atom::value, std::move(question))
        .then([this, number](StopAnswer& answer) { close(number, std::move(answer)); },
              [this, number](const caf::error& reason) { close(number, failure(reason)); });
  }
  void close(std::uint64_t number, StopAnswer answer) {
    const auto found = open_.find(number);
    if (found == open_.end()) return;
    found->second(std::move(answer));
    open_.erase(found);
  }
  void on_rule_down(const caf::error& reason) {
    for (const auto& [number, reply] : open_) reply(failure(reason));
    open_.clear();
  }
  static StopAnswer failure(const caf::error& reason) {
    return {.failure = "its actor gave no answer (" + describe(reason) + ")"};
  }

  StopRuleRef rule_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, StopReply> open_;  ///< questions without an answer
};

class ActorJudge final : public StopJudge {
 public:
  explicit ActorJudge(const StopRuleRef& rule)
      : asker_(caf::actor_cast<caf::abstract_actor*>(rule)->home_system().spawn<Asker>(rule)) {}
  ActorJudge(const ActorJudge&) = delete;
  ActorJudge& operator=(const ActorJudge&) = delete;
  ~ActorJudge() override { caf::anon_send_exit(asker_, caf::exit_reason::user_shutdown); }

  void judge(StopQuestion question, StopReply reply) override {
    caf::anon_send(asker_, judge_atom::value, Ask{std::move(question), std::move(reply)});
  }
  void over(StreamId stream) noexcept override {
    try {
      caf::anon_send(asker_, over_atom::value, stream);
    } catch (const std::bad_alloc&) {  // without memory the rule learns of the end by its own death
    }
  }

 private:
  AskerRef asker_;
};

}  // namespace

std::shared_ptr<StopJudge> make_stop_judge(const StopRuleRef& rule) {
  if (!rule) throw Error(ErrorCode::kInvalidArgument, "A stop rule needs an actor.");
  return std::make_shared<ActorJudge>(rule);
}

std::shared_ptr<StopJudge> make_stop_judge(const caf::actor& rule) {
  return make_stop_judge(caf::actor_cast<StopRuleRef>(rule));
}

}  // namespace sluice::v0
