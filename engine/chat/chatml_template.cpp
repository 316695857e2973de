#include "engine/chat/chatml_template.hpp"

#include "engine/chat/conversation_check.hpp"

namespace sluice {

RenderedPrompt ChatmlTemplate::render(std::span<const ChatMessage> messages,
                                      bool add_generation_prompt) const {
  check_conversation(messages);
  RenderedPrompt prompt;
  for (const ChatMessage& message : messages) {
    prompt.text += kChatmlStart;
    prompt.text += message.role;
    prompt.text += '\n';
    const std::size_t begin = prompt.text.size();
    prompt.text += message.content;
    if (!message.content.empty()) prompt.literal.push_back({begin, prompt.text.size()});
    prompt.text += kChatmlEnd;
    prompt.text += '\n';
  }
  if (add_generation_prompt) {
    prompt.text += kChatmlStart;
    prompt.text += "assistant\n";
  }
  return prompt;
}

}  // namespace sluice
