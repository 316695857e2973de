#include "engine/stream/rejection.hpp"

#include <algorithm>
#include <string>

namespace sluice {

ErrorEvent rejection(RejectReason reason, Position prompt_tokens, Position context_length) {
  switch (reason) {
    case RejectReason::kQueueFull:
      return {0, "queue_full", "The queue is full; try again later."};
    case RejectReason::kPromptTooLong:
      return {0, "prompt_too_long",
              "The prompt has " + std::to_string(prompt_tokens) +
                  " tokens; this model takes at most " +
                  std::to_string(std::max(context_length - 1, 0)) + " and one of output."};
    case RejectReason::kInputTooLong:
      return {0, "prompt_too_long", reject_message(reason)};
    case RejectReason::kEmptyPrompt:
      return {0, "empty_prompt", "The prompt has no tokens; send some text."};
    case RejectReason::kDuplicateId:
      return {0, "duplicate_id", "A stream with this id is running already."};
    case RejectReason::kStopping:
      return {0, "shutting_down", "The server is shutting down; try another one."};
    case RejectReason::kNone:
      break;
  }
  return {0, "internal", "The scheduler refused the request without a reason."};
}

ErrorEvent failure(const Publication& publication) {
  const bool expired = publication.kind == Publication::Kind::kExpired;
  const char* otherwise = expired ? "The request waited too long in the queue; try again later."
                                  : "The model failed on this stream.";
  return {0, expired ? "queue_timeout" : "generation_failed",
          publication.message.empty() ? otherwise : publication.message};
}

}  // namespace sluice
