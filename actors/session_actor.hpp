// One stream as an actor: the session machine, its timers, its listener.
//
//   begin   check and tokenise the request, ask the supervisor where to submit
//   serve   submit; after a restart submit again, with the tokens drawn so far
//   ...     publications, deliveries and steering go to the machine, its outputs go on
//   end     when the machine has closed
//
// An exception in here (the listener's handler included) ends this stream alone: the listener
// gets an `error`, scheduler and KV manager learn of the death by their monitors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/event_outlet.hpp"
#include "actors/interfaces.hpp"
#include "actors/session_link.hpp"
#include "actors/stream_clock.hpp"
#include "actors/stream_intake.hpp"

namespace sluice {

struct SessionParts {
  SequenceId id = 0;
  std::shared_ptr<const ServiceContext> service;
  std::shared_ptr<StatsBoard> board;
  SupervisorRef supervisor;
  std::shared_ptr<SessionLink> link;
  EventOutlet outlet;
  GenerateRequest request;
  Delivery delivery = Delivery::kOnReturn;
};

struct SessionState {
  static constexpr const char* name = "session";
  using Clock = SessionMachine::Clock;

  ~SessionState();

  std::optional<SessionParts> parts;
  std::optional<SessionMachine> machine;  ///< from begin on
  bool started = false;                   ///< `accepted` has been sent
  // What was asked for before the machine could hear it.
  std::optional<std::string> early_cancel;
  bool early_pause = false;
  std::optional<StreamChanges> early_changes;

  std::shared_ptr<StopJudge> judge;  ///< the caller's own, if there is one

  // For submissions.
  std::vector<TokenId> prompt;
  std::vector<TokenId> end_tokens;
  std::shared_ptr<const SamplingParams> sampling;
  Position max_new_tokens = 0;
  bool default_maximum = true;  ///< nobody asked for it
  std::string salt;
  std::int32_t priority = 0;
  std::uint64_t sample_group = 0;
  Service service;  ///< where the sequence is now; epoch 0: nowhere
  bool resubmitting = false;

  std::optional<StreamClock> stream_clock;             ///< from begin on
  Clock::time_point alarm = Clock::time_point::max();  ///< of the pending tick
};

class SessionActor final : public SessionRef::stateful_base<SessionState> {
 public:
  SessionActor(caf::actor_config& config, SessionParts parts);

 protected:
  behavior_type make_behavior() override;

 private:
  // The request's way in.
  void begin();
  void on_service(const Service& service);
  void on_submit_answer(const Service& asked, RejectReason reason);
  void refuse(const Refusal& refusal);
  void start();

  // From the scheduler.
  void on_publications(Epoch epoch, const std::vector<Publication>& publications);
  void give_verdict();

  // To the caller's own rule, and back.
  void ask(StopQuestion question);
  void on_judged(std::uint64_t number, StopAnswer answer);

  // From the listener.
  void on_cancel(std::string detail);
  void on_change(StreamChanges changes);
  void on_gone();
  void on_unheard();

  // Time.
  void on_tick();
  void set_alarm();

  // The end.
  void on_exit_request(const caf::error& reason);

  void carry_out(SessionMachine::Output output);
  void note(const Event& event);
  void steer(const SessionMachine::Output& output);
  bool ending() const;  ///< the machine has decided to end
};

}  // namespace sluice
