// ChatML: <|im_start|>ROLE, line feed, content, <|im_end|>, line feed, for each message.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/chat/chat_template.hpp"

namespace sluice {

inline constexpr std::string_view kChatmlStart = "<|im_start|>";
inline constexpr std::string_view kChatmlEnd = "<|im_end|>";

class ChatmlTemplate final : public ChatTemplate {
 public:
  /// `reason` says why this template was chosen, for the description.
  explicit ChatmlTemplate(std::string reason, std::optional<ReasoningTags> reasoning = {})
      : reason_(std::move(reason)), reasoning_(std::move(reasoning)) {}

  RenderedPrompt render(std::span<const ChatMessage> messages,
                        bool add_generation_prompt) const override;
  std::optional<ReasoningTags> reasoning() const override { return reasoning_; }
  std::vector<std::string> turn_ends() const override { return {std::string(kChatmlEnd)}; }
  std::string description() const override { return "ChatML (" + reason_ + ")"; }

 private:
  std::string reason_;
  std::optional<ReasoningTags> reasoning_;
};

}  // namespace sluice
