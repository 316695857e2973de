#include "actors/actor_base.hpp"

#include <spdlog/spdlog.h>

#include <caf/actor_system.hpp>
#include <exception>

#include "actors/interfaces.hpp"

namespace sluice {

void set_default_handlers(caf::scheduled_actor& self, std::string_view name) {
  const std::string who(name);
  self.set_error_handler([who](caf::scheduled_actor* actor, caf::error& reason) {
    log_warning(who + ": unhandled error: " + describe(reason));
    actor->quit(caf::make_error(ActorError::kUnexpected, describe(reason)));
  });
  self.set_default_handler(
      [who](caf::scheduled_actor*, caf::message_view&) -> caf::result<caf::message> {
        log_warning(who + ": dropped a message of an unknown type");
        return caf::sec::unexpected_message;
      });
  self.set_down_handler([](caf::scheduled_actor*, caf::down_msg&) {});
  self.set_exit_handler([](caf::scheduled_actor* actor, caf::exit_msg& message) {
    actor->quit(message.reason ? message.reason : caf::error(caf::exit_reason::user_shutdown));
  });
  self.set_exception_handler(
      [who](caf::scheduled_actor*, std::exception_ptr& exception) -> caf::error {
        caf::error reason = to_error(exception);
        log_warning(who + ": " + describe(reason));
        return reason;
      });
}

caf::error to_error(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& e) {
    return caf::make_error(ActorError::kHandlerFailed, std::string(e.what()));
  } catch (...) {
    return caf::make_error(ActorError::kHandlerFailed, std::string("unknown exception"));
  }
}

std::string describe(const caf::error& reason) {
  if (!reason) return "normal end";
  if (reason.context().match_elements<std::string>()) {
    return reason.context().get_as<std::string>(0);
  }
  return caf::to_string(reason);
}

void log_warning(const std::string& line) {
  if (const auto logger = spdlog::get("sluice")) logger->warn(line);
}

}  // namespace sluice
