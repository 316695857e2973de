// The whole machine on one thread, message by message, with a clock that the test moves: for
// looking at one stream at one exact moment of its life.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/session_actor.hpp"
#include "actors/supervisor.hpp"
#include "tests/actors/coordinated_system.hpp"
#include "tests/support/scripted_engine.hpp"
#include "tests/support/stream_log.hpp"

namespace sluice::test {

/// A scripted backend that lets the test act while a step runs.
class InterruptedBackend final : public Backend {
 public:
  InterruptedBackend(std::unique_ptr<Backend> inner, std::function<void(const StepBatch&)> during)
      : inner_(std::move(inner)), during_(std::move(during)) {}
  void allocate_pool(const KvPoolShape& shape) override { inner_->allocate_pool(shape); }
  StepResult step(const StepBatch& batch) noexcept override {
    if (during_) during_(batch);
    return inner_->step(batch);
  }
  BackendMemory memory() const override { return inner_->memory(); }
  std::string description() const override { return "interrupted"; }

 private:
  std::unique_ptr<Backend> inner_;
  std::function<void(const StepBatch&)> during_;
};

struct VirtualStream {
  std::shared_ptr<StreamLog> log = std::make_shared<StreamLog>();
  StreamHandle handle;
  SessionRef session;

  const SessionState& state() const { return actor_of<SessionActor>(session).state; }
};

struct VirtualEngineOptions {
  Script script = endless_script();
  std::int32_t max_running = 6;
  std::int32_t max_restarts = 0;
  std::chrono::milliseconds heartbeat_interval{0};
  std::chrono::milliseconds queue_deadline{0};
  std::function<void(const StepBatch&)> during_step;
};

class VirtualEngine : public CoordinatedSystem {
 public:
  static constexpr Position kContext = 128;

  explicit VirtualEngine(const VirtualEngineOptions& options) {
    ScriptedEngineOptions scripted;
    scripted.next_token = options.script;
    scripted.context = kContext;
    scripted.num_blocks = 128;
    scripted.steps_until_fatal = fatal;
    const PreparedEngine prepared = scripted_engine(scripted);
    context_->model_name = "Scripted";
    context_->tokenizer = prepared.tokenizer;
    context_->chat_template = prepared.chat_template;
    context_->context_length = kContext;
    context_->end_tokens = union_of_end_tokens(*prepared.tokenizer, *prepared.chat_template);
    context_->credit_window = 4;
    context_->heartbeat_interval = options.heartbeat_interval;

    SupervisorParts parts;
    parts.executor.make_backend = [make = prepared.make_backend, during = options.during_step] {
      return std::make_unique<InterruptedBackend>(make(), during);
    };
    parts.executor.pool = {scripted.num_blocks, scripted.block_size};
    parts.scheduler.context_length = kContext;
    parts.scheduler.token_budget = 24;
    parts.scheduler.prefill_chunk = 8;
    parts.scheduler.max_running = options.max_running;
    parts.scheduler.queue_deadline = options.queue_deadline;
    parts.scheduler.idle_preempt_after = std::chrono::milliseconds(0);
    parts.kv.num_blocks = scripted.num_blocks;
    parts.kv.block_size = scripted.block_size;
    parts.policy.max_restarts = options.max_restarts;
    parts.board = board;
    parts.detached_executor = false;
    supervisor = system().spawn<SupervisorActor>(std::move(parts));
    caf::anon_send(supervisor, start_atom::value);
    run();
  }
  ~VirtualEngine() { stop(); }
  VirtualEngine(const VirtualEngine&) = delete;
  VirtualEngine& operator=(const VirtualEngine&) = delete;

  /// `around` may wrap the handler.
  VirtualStream open(const GenerateRequest& request, Delivery delivery,
                     const std::function<EventHandler(EventHandler)>& around = nullptr) {
    VirtualStream stream;
    EventHandler handler = recorder(stream.log);
    if (around) handler = around(std::move(handler));
    auto link = std::make_shared<SessionLink>();
    const SequenceId id = ++last_id_;
    stream.session =
        system().spawn<SessionActor>(SessionParts{.id = id,
                                                  .service = context_,
                                                  .board = board,
                                                  .supervisor = supervisor,
                                                  .link = link,
                                                  .outlet = EventOutlet(std::move(handler), board),
                                                  .request = request,
                                                  .delivery = delivery});
    link->open(stream.session);
    caf::anon_send(stream.session, begin_atom::value);
    stream.handle = {id, std::make_shared<SessionControl>(link, delivery)};
    return stream;
  }

  /// Handles messages until `condition` holds. False: nothing is left that could make it so.
  template <class Condition>
  bool run_until(Condition condition) {
    while (!condition()) {
      if (!scheduler().try_run_once()) return false;
    }
    return true;
  }

  void begin_stop() { caf::anon_send(supervisor, stop_atom::value, std::chrono::milliseconds(0)); }

  /// Ends everything; called by the destructor as well.
  void stop() {
    if (!supervisor) return;
    begin_stop();
    run_out();
    supervisor = nullptr;
  }

  std::shared_ptr<StatsBoard> board = std::make_shared<StatsBoard>();
  std::shared_ptr<std::atomic<int>> fatal = std::make_shared<std::atomic<int>>(-1);
  SupervisorRef supervisor;

 private:
  std::shared_ptr<ServiceContext> context_ = std::make_shared<ServiceContext>();
  SequenceId last_id_ = 0;
};

}  // namespace sluice::test
