#include "engine/chat/plain_template.hpp"

#include "engine/chat/conversation_check.hpp"

namespace sluice {

RenderedPrompt PlainTemplate::render(std::span<const ChatMessage> messages,
                                     bool /*add_generation_prompt*/) const {
  check_conversation(messages);
  RenderedPrompt prompt;
  for (const ChatMessage& message : messages) {
    if (!prompt.text.empty()) prompt.text += '\n';
    prompt.text += message.content;
  }
  if (!prompt.text.empty()) prompt.literal.push_back({0, prompt.text.size()});
  return prompt;
}

}  // namespace sluice
