// The engine and its streams as actors of the caller's system.
#include "embed/engine_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <optional>
#include <utility>

#include "embed/engine_core.hpp"
#include "engine/stream/stop_policy.hpp"

namespace sluice::embed {

namespace {

caf::error to_caf_error(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const api::Error& error) {
    return caf::make_error(error.code(), std::string(error.what()));
  } catch (const Error& error) {
    const api::Error translated = to_public(error);
    return caf::make_error(translated.code(), std::string(translated.what()));
  } catch (const std::exception& error) {
    return caf::make_error(api::ErrorCode::kInternal, std::string(error.what()));
  } catch (...) {
    return caf::make_error(api::ErrorCode::kInternal, std::string("an unknown exception"));
  }
}

// -- one stream -----------------------------------------------------------------------------------

/// With what the engine's threads say to it.
using StreamInside = api::StreamRef::extend<caf::reacts_to<api::event_atom, api::Event>>;

/// Stands between the engine's session and the sink: asks the sink with each event and says
/// "delivered" when it answers. Ends after the terminal event, or with the sink.
class StreamActor final : public StreamInside::base {
 public:
  /// Runs on the thread that spawns. Events may come before this returns: they wait in the
  /// mailbox, and nothing looks into that before the actor is launched.
  StreamActor(caf::actor_config& config, EngineCore* core, api::Request request, api::SinkRef sink)
      : typed_event_based_actor(config), sink_(std::move(sink)) {
    handle_ = core->generate(
        std::move(request),
        [self = StreamInside(this)](const api::Event& event) {
          caf::anon_send(self, api::event_atom::value, event);
        },
        Delivery::kAcknowledged);
  }

 protected:
  behavior_type make_behavior() override {
    set_down_handler([this](caf::down_msg&) { end_without_sink(); });
    set_exit_handler([this](caf::exit_msg& message) { quit(message.reason); });
    set_exception_handler([](std::exception_ptr& exception) { return to_caf_error(exception); });
    // The sink may die while there is nothing to ask it.
    monitor(sink_);
    return {
        [this](api::cancel_atom, std::string& detail) { handle_.cancel(std::move(detail)); },
        [this](api::pause_atom) { handle_.pause(); },
        [this](api::resume_atom) { handle_.resume(); },
        [this](api::change_atom, api::Changes& changes) { return change(std::move(changes)); },
        [this](api::event_atom, const api::Event& event) { on_event(event); },
    };
  }
  void on_exit() override {
    handle_.listener_gone();  // nothing, if the stream has ended
    handle_ = {};
    sink_ = nullptr;
  }

 private:
  caf::result<void> change(api::Changes changes) {
    try {
      StreamChanges wanted = to_internal(std::move(changes));
      check_stream_changes(wanted);
      handle_.change(std::move(wanted));
      return caf::unit;
    } catch (const Error&) {
      return to_caf_error(std::current_exception());
    }
  }

  void on_event(const api::Event& event) {
    if (api::is_terminal(event)) return finish(event);
    request(sink_, caf::infinite, api::event_atom::value, handle_.id(), event)
        .then([this, number = api::number_of(event)] { handle_.delivered(number); },
              [this](const caf::error&) { end_without_sink(); });
  }
  void finish(const api::Event& event) {
    send(sink_, api::event_atom::value, handle_.id(), event);
    const auto* error = std::get_if<api::ErrorEvent>(&event);
    if (error == nullptr) return quit();
    quit(caf::make_error(api::ErrorCode::kInternal, error->message));
  }
  void end_without_sink() {
    quit(caf::make_error(api::ErrorCode::kInternal, std::string("The stream's sink ended.")));
  }

  api::SinkRef sink_;
  StreamHandle handle_;
};

// -- the engine -----------------------------------------------------------------------------------

/// Detached: loading a model and waiting for the last streams block this thread, and no other.
class EngineActor final : public api::EngineRef::base {
 public:
  EngineActor(caf::actor_config& config, std::function<PreparedEngine()> make)
      : typed_event_based_actor(config), make_(std::move(make)) {}

 protected:
  behavior_type make_behavior() override {
    set_exception_handler([](std::exception_ptr& exception) { return to_caf_error(exception); });
    set_exit_handler([this](caf::exit_msg& message) { quit(message.reason); });
    load();
    return {
        [this](api::ready_atom) { return to_public(core_->engine().info()); },
        [this](api::generate_atom, api::Request& request, const api::SinkRef& sink) {
          return generate(std::move(request), sink);
        },
        [this](api::stats_atom) { return to_public(core_->engine().stats()); },
        [this](api::shutdown_atom, std::chrono::milliseconds grace) {
          core_->engine().shutdown(grace);
          quit();
          return api::shutdown_atom::value;
        },
    };
  }
  void on_exit() override { core_.reset(); }

 private:
  void load() {
    try {
      core_.emplace(make_(), system());
    } catch (...) {
      quit(to_caf_error(std::current_exception()));
    }
  }
  caf::result<api::StreamRef> generate(api::Request request, const api::SinkRef& sink) {
    if (!sink) {
      return caf::make_error(api::ErrorCode::kInvalidArgument,
                             std::string("A stream needs a sink; this handle is empty."));
    }
    return api::StreamRef(spawn<StreamActor>(&*core_, std::move(request), sink));
  }

  const std::function<PreparedEngine()> make_;
  std::optional<EngineCore> core_;
};

}  // namespace

api::EngineRef spawn_engine(caf::actor_system& system, std::function<PreparedEngine()> make) {
  return system.spawn<EngineActor, caf::detached>(std::move(make));
}

}  // namespace sluice::embed

namespace sluice::v0 {

EngineRef spawn_engine(caf::actor_system& system, const Config& config) {
  return embed::spawn_engine(system, [config] { return embed::prepare(config); });
}

void tune(caf::actor_system_config& settings) {
  settings.set("scheduler.policy", caf::atom("sharing"));
  settings.add_error_category(caf::atom("sluiceapi"),
                              [](std::uint8_t code, caf::atom_value, const caf::message& context) {
                                std::string text = to_string(static_cast<ErrorCode>(code));
                                if (context.match_elements<std::string>())
                                  text += ": " + context.get_as<std::string>(0);
                                return text;
                              });
}

std::string describe(const caf::error& reason) {
  if (!reason) return "normal end";
  if (reason.context().match_elements<std::string>()) {
    return reason.context().get_as<std::string>(0);
  }
  return caf::to_string(reason);
}

}  // namespace sluice::v0
