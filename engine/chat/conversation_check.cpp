#include "engine/chat/conversation_check.hpp"

#include <fmt/format.h>

#include "engine/base/error.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {

void check_conversation(std::span<const ChatMessage> messages) {
  if (messages.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "The conversation has no messages; send at least one with the role user.");
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role == "system" || role == "user" || role == "assistant") continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("Message {} has the role {}, which this model's template does not "
                            "know; use system, user or assistant.",
                            i + 1, quote_text(role)));
  }
}

}  // namespace sluice
