#include "sluice/engine.hpp"

#include "embed/engine_core.hpp"
#include "embed/service_of.hpp"
#include "engine/stream/stop_policy.hpp"

namespace sluice::embed {

PreparedEngine prepare(const api::Config& config) {
  PreparedEngine prepared = prepare_engine(to_internal(config));
  if (config.warm_up) (void)sluice::warm_up(prepared);
  return prepared;
}

StreamHandle EngineCore::generate(api::Request request, api::EventHandler on_event,
                                  Delivery delivery) {
  return engine_.generate(
      to_internal(std::move(request)),
      [on_event = std::move(on_event)](const Event& event) { on_event(to_public(event)); },
      delivery);
}

api::Stream Access::make_stream(const StreamHandle& handle) {
  api::Stream stream;
  stream.id_ = handle.id();
  if (handle) stream.handle_ = std::make_shared<const StreamHandle>(handle);
  return stream;
}

}  // namespace sluice::embed

namespace sluice::v0 {

Plan plan(const Config& config) {
  return embed::with_public_errors([&] {
    const PreparedEngine prepared = prepare_engine(embed::to_internal(config));
    const MemoryPlan& plan = prepared.plan;
    return Plan{.limit_bytes = plan.limit_bytes,
                .weights_bytes = plan.weights_bytes,
                .scratch_bytes = plan.scratch_bytes,
                .kv_pool_bytes = plan.kv_pool_bytes,
                .kv_bytes_per_token = plan.kv_bytes_per_token,
                .context = plan.context,
                .sequences = plan.sequences,
                .table = plan_table(plan, prepared.model_config)};
  });
}

// -- Stream ---------------------------------------------------------------------------------------

void Stream::cancel(std::string detail) const {
  if (handle_) handle_->cancel(std::move(detail));
}
void Stream::pause() const {
  if (handle_) handle_->pause();
}
void Stream::resume() const {
  if (handle_) handle_->resume();
}
void Stream::change(const Changes& changes) const {
  StreamChanges wanted = embed::to_internal(changes);
  embed::with_public_errors([&] { check_stream_changes(wanted); });
  if (handle_) handle_->change(std::move(wanted));
}
void Stream::delivered(std::uint64_t event_number) const {
  if (handle_) handle_->delivered(event_number);
}
void Stream::abandon() const {
  if (handle_) handle_->listener_gone();
}

// -- Engine ---------------------------------------------------------------------------------------

Engine::Engine(const Config& config)
    : core_(embed::with_public_errors(
          [&] { return std::make_shared<embed::EngineCore>(embed::prepare(config)); })) {}
Engine::Engine(std::shared_ptr<embed::EngineCore> core) : core_(std::move(core)) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

Stream Engine::generate(Request request, EventHandler on_event, Delivery delivery) {
  return embed::Access::make_stream(core_->generate(std::move(request), std::move(on_event),
                                                    delivery == Delivery::kAcknowledged
                                                        ? sluice::Delivery::kAcknowledged
                                                        : sluice::Delivery::kOnReturn));
}

Info Engine::info() const {
  return embed::to_public(core_->engine().info());
}

Stats Engine::stats() const {
  return embed::to_public(core_->engine().stats());
}

std::vector<TokenId> Engine::prompt_tokens(const Request& request) const {
  return embed::with_public_errors(
      [&] { return core_->engine().prompt_tokens(embed::to_internal(request)); });
}

std::string Engine::token_text(TokenId token) const {
  return core_->engine().token_text(token);
}

void Engine::shutdown(std::chrono::milliseconds grace) {
  core_->engine().shutdown(grace);
}

StreamService& service_of(Engine& engine) {
  return embed::Access::core(engine).engine();
}

}  // namespace sluice::v0
