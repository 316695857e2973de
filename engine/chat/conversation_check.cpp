#include "engine/chat/conversation_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {

void check_conversation(std::span<const ChatMessage> messages,
                        std::span<const std::string_view> roles) {
  if (messages.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "The conversation has no messages; send at least one with the role user.");
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (std::find(roles.begin(), roles.end(), role) != roles.end()) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("Message {} has the role {}, which this model's template does not "
                            "know; use {}.",
                            i + 1, quote_text(role), fmt::join(roles, ", ")));
  }
}

}  // namespace sluice
