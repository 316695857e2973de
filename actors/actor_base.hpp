// What every actor of the engine does the same way.
//
// CAF's defaults print to the console and end the actor for anything unexpected. Here one
// function sets every default handler, so that no actor depends on a default by accident:
//
//   error      a request nobody handled failed      -> end with kUnexpected
//   default    a message of an unknown type         -> logged, answered with an error, dropped
//   down       of something monitored               -> ignored unless the actor says otherwise
//   exit       from the supervisor or a link        -> end with that reason
//   exception  escaped from a handler               -> end with kHandlerFailed; the down message
//                                                      carries the text
#pragma once

#include <caf/error.hpp>
#include <caf/scheduled_actor.hpp>
#include <string>
#include <string_view>

namespace sluice {

/// Call first in make_behavior(); the actor may then replace single handlers.
void set_default_handlers(caf::scheduled_actor& self, std::string_view name);

/// kHandlerFailed with the text of the exception.
caf::error to_error(const std::exception_ptr& exception);

/// A reason for logs and messages.
std::string describe(const caf::error& reason);

/// One line to the logger named "sluice", if the program has registered one. The library says
/// nothing on its own.
void log_warning(const std::string& line);

}  // namespace sluice
