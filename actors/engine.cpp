#include "actors/engine.hpp"

#include <algorithm>
#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <mutex>
#include <new>
#include <utility>

#include "actors/actor_base.hpp"
#include "actors/answer_lengths.hpp"
#include "actors/inspector.hpp"
#include "actors/service_info.hpp"
#include "actors/session_actor.hpp"
#include "actors/supervisor.hpp"
#include "engine/base/error.hpp"
#include "engine/model/encoder_config.hpp"

namespace sluice {

namespace {

/// Messages one actor may handle before others get their turn.
constexpr std::size_t kMaxThroughput = 50;

std::unique_ptr<caf::actor_system_config> make_actor_config(const EngineConfig& config) {
  auto result = std::make_unique<caf::actor_system_config>();
  // Work sharing: stealing workers poll in their sleep, and a message from outside then waits
  // a hundred microseconds.
  result->set("scheduler.policy", caf::atom("sharing"));
  result->set("scheduler.max-threads", static_cast<std::size_t>(std::max(config.actor_threads, 1)));
  result->set("scheduler.max-throughput", kMaxThroughput);
  return result;
}

/// Positions that one stream can have: the plan's context, as far as the pool reaches.
Position usable_context(const MemoryPlan& plan) {
  const std::int64_t pool = std::int64_t{plan.num_blocks} * plan.block_size;
  return static_cast<Position>(std::min<std::int64_t>(plan.context, pool));
}

std::shared_ptr<const ServiceContext> make_context(const PreparedEngine& prepared) {
  auto context = std::make_shared<ServiceContext>();
  context->model_name = prepared.model_config.name;
  context->tokenizer = prepared.tokenizer;
  context->chat_template = prepared.chat_template;
  context->context_length = usable_context(prepared.plan);
  context->max_encoder_input =
      longest_input(prepared.model_config, std::max(prepared.config.plan.max_batch_tokens, 1),
                    context->context_length);
  context->decoder_start = prepared.model_config.encoder.decoder_start;
  context->default_max_new_tokens =
      std::min(prepared.config.default_max_new_tokens, context->context_length);
  context->lengths = std::make_shared<AnswerLengths>(
      context->default_max_new_tokens,
      lengths_file(prepared.config.state_dir, prepared.model_config, *prepared.tokenizer));
  context->low_confidence = prepared.low_confidence;
  context->end_tokens = union_of_end_tokens(*prepared.tokenizer, *prepared.chat_template);
  context->credit_window = std::max(prepared.config.credit_window, 1);
  context->heartbeat_interval = prepared.config.heartbeat_interval;
  return context;
}

SupervisorParts make_supervisor_parts(const PreparedEngine& prepared, const ServiceContext& context,
                                      std::shared_ptr<StatsBoard> board) {
  const EngineConfig& config = prepared.config;
  const MemoryPlan& plan = prepared.plan;
  SupervisorParts parts;
  parts.executor.make_backend = prepared.make_backend;
  parts.kv = kv_manager_options(plan);
  parts.kv.prefix_cache = config.prefix_cache;
  parts.executor.pool = pool_for(parts.kv);
  parts.executor.pool.group_of_layer = plan.group_of_layer;
  parts.executor.pool.swap_file = plan.swap_file;
  parts.scheduler = config.scheduler;
  parts.scheduler.context_length = context.context_length;
  parts.scheduler.token_budget = std::max(config.plan.max_batch_tokens, 1);
  parts.scheduler.prefill_chunk =
      std::clamp(config.scheduler.prefill_chunk, 1, parts.scheduler.token_budget);
  parts.scheduler.max_encoder_input = context.max_encoder_input;
  parts.policy = config.restart;
  parts.board = std::move(board);
  return parts;
}

}  // namespace

struct Engine::Impl {
  const PreparedEngine prepared;
  ServiceInfo info;
  std::shared_ptr<StatsBoard> board = std::make_shared<StatsBoard>();
  std::shared_ptr<const ServiceContext> context;
  std::atomic<SequenceId> last_id{0};
  std::mutex shutdown_mutex;
  bool down = false;

  // The system goes last: every handle must have gone before it.
  std::unique_ptr<caf::actor_system_config> actor_config;  ///< null in a system of the caller
  std::unique_ptr<caf::actor_system> own_system;           ///< likewise
  caf::actor_system* system = nullptr;
  SupervisorRef supervisor;
  InspectorRef inspector;

  Impl(PreparedEngine what, caf::actor_system* host);
  void take_down(std::chrono::milliseconds grace);
};

Engine::Impl::Impl(PreparedEngine what, caf::actor_system* host)
    : prepared(std::move(what)), context(make_context(prepared)), system(host) {
  if (system == nullptr) {
    actor_config = make_actor_config(prepared.config);
    own_system = std::make_unique<caf::actor_system>(*actor_config);
    system = own_system.get();
  }
  supervisor = system->spawn<SupervisorActor>(make_supervisor_parts(prepared, *context, board));

  inspector = system->spawn<InspectorActor>(supervisor);

  BackendReport report;
  caf::scoped_actor self(*system);
  self->request(supervisor, caf::infinite, start_atom::value)
      .receive([&](BackendReport& answer) { report = std::move(answer); },
               [&](caf::error& reason) { report.message = describe(reason); });
  if (!report.ok) {
    take_down(std::chrono::milliseconds(0));
    throw Error(report.code, report.message);
  }
  info = make_service_info(prepared, *context, report.description);
}

void Engine::Impl::take_down(std::chrono::milliseconds grace) {
  const std::lock_guard lock(shutdown_mutex);
  if (std::exchange(down, true)) return;
  caf::scoped_actor self(*system);
  self->request(supervisor, caf::infinite, stop_atom::value, grace)
      .receive([](stop_atom) {}, [](caf::error&) {});
  caf::anon_send_exit(inspector, caf::exit_reason::user_shutdown);
  self->wait_for(supervisor, inspector);
}

Engine::Engine(PreparedEngine prepared)
    : impl_(std::make_unique<Impl>(std::move(prepared), nullptr)) {}

Engine::Engine(PreparedEngine prepared, caf::actor_system& host)
    : impl_(std::make_unique<Impl>(std::move(prepared), &host)) {}

Engine::~Engine() {
  shutdown(std::chrono::milliseconds(0));
}

StreamHandle Engine::generate(GenerateRequest request, EventHandler on_event, Delivery delivery) {
  // From here on the outlet sees to it that the handler hears of every end, a failure to start
  // included.
  EventOutlet outlet(std::move(on_event), impl_->board);
  try {
    const SequenceId id = ++impl_->last_id;
    auto link = std::make_shared<SessionLink>();
    auto control = std::make_shared<SessionControl>(link, delivery);
    const SessionRef session =
        impl_->system->spawn<SessionActor>(SessionParts{.id = id,
                                                        .service = impl_->context,
                                                        .board = impl_->board,
                                                        .supervisor = impl_->supervisor,
                                                        .link = link,
                                                        .outlet = std::move(outlet),
                                                        .request = std::move(request),
                                                        .delivery = delivery});
    link->open(session);
    caf::anon_send(session, begin_atom::value);
    return {id, std::move(control)};
  } catch (const std::bad_alloc&) {
    outlet.fail("internal", "There is not enough memory to start another stream.");
    return {};
  }
}

const ServiceInfo& Engine::info() const {
  return impl_->info;
}

std::shared_ptr<const Tokenizer> Engine::tokenizer() const {
  return impl_->context->tokenizer;
}

std::vector<TokenId> Engine::prompt_tokens(const GenerateRequest& request) const {
  auto prepared = prepare_stream(request, *impl_->context);
  if (const auto* error = std::get_if<IntakeError>(&prepared)) {
    throw Error(ErrorCode::kInvalidArgument, error->message);
  }
  return std::move(std::get<PreparedStream>(prepared).prompt);
}

EngineStats Engine::stats() const {
  EngineStats stats = impl_->board->read();
  stats.default_maximum = impl_->context->lengths->in_force();
  return stats;
}

std::vector<DeviceUsage> Engine::devices() const {
  return impl_->board->devices();
}

void Engine::inspect(std::function<void(EngineView)> done) {
  caf::anon_send(impl_->inspector, inspect_atom::value,
                 Inspection{std::make_shared<Gathering>(std::move(done))});
}

std::string Engine::token_text(TokenId token) const {
  return std::string(impl_->context->tokenizer->token_bytes(token));
}

void Engine::shutdown(std::chrono::milliseconds grace) {
  impl_->take_down(grace);
}

}  // namespace sluice
