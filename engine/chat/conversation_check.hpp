// What every template asks of a conversation.
#pragma once

#include <span>

#include "engine/chat/chat_template.hpp"

namespace sluice {

/// Throws Error(kInvalidArgument), naming the message by its number from 1, when there are no
/// messages, or one has another role than system, user or assistant.
void check_conversation(std::span<const ChatMessage> messages);

}  // namespace sluice
