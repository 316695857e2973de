// What a client hears when the scheduler refuses its stream or gives it up.
#pragma once

#include "engine/schedule/scheduler.hpp"
#include "engine/stream/events.hpp"

namespace sluice {

/// The error for `reason`; the numbers are those of the stream.
ErrorEvent rejection(RejectReason reason, Position prompt_tokens, Position context_length);

/// The error for a publication of kind kFailed or kExpired.
ErrorEvent failure(const Publication& publication);

}  // namespace sluice
