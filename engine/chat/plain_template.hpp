// For models without a template of their own: the contents alone, joined by line feeds.
//
// A base model continues text; marks that it never saw would only confuse it. So a single user
// message is the prompt itself, and an answer continues it.
#pragma once

#include <string>
#include <utility>

#include "engine/chat/chat_template.hpp"

namespace sluice {

class PlainTemplate final : public ChatTemplate {
 public:
  /// `reason` says why no better template was found, for the description.
  explicit PlainTemplate(std::string reason) : reason_(std::move(reason)) {}

  RenderedPrompt render(std::span<const ChatMessage> messages,
                        bool add_generation_prompt) const override;
  std::vector<std::string> turn_ends() const override { return {}; }
  std::string description() const override {
    return "plain text, contents joined by line feeds, no role marks (" + reason_ + ")";
  }

 private:
  std::string reason_;
};

}  // namespace sluice
