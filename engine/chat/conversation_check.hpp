// What every template asks of a conversation.
#pragma once

#include <span>
#include <string_view>

#include "engine/chat/chat_template.hpp"

namespace sluice {

inline constexpr std::string_view kBasicRoles[] = {"system", "user", "assistant"};
/// What templates of models may know; each one refuses what it does not.
inline constexpr std::string_view kRolesOfTemplates[] = {"system", "user",      "assistant",
                                                         "tool",   "developer", "function"};

/// Throws Error(kInvalidArgument), naming the message by its number from 1, when there are no
/// messages, or one has a role that is not among `roles`.
void check_conversation(std::span<const ChatMessage> messages,
                        std::span<const std::string_view> roles = kBasicRoles);

}  // namespace sluice
