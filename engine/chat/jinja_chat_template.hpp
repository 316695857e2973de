// The template that the model brought along, rendered by the engine in engine/chat/jinja.
#pragma once

#include <string>
#include <vector>

#include "engine/chat/chat_template.hpp"
#include "engine/chat/jinja/template.hpp"

namespace sluice {

class JinjaChatTemplate final : public ChatTemplate {
 public:
  /// Parses `source`, and renders a conversation on trial to see what ends the assistant's turn.
  /// Start, end and other special texts come from the model's metadata. Throws
  /// jinja::TemplateError when the text is not a template.
  JinjaChatTemplate(const std::string& source, const ModelSource& model,
                    const Tokenizer& tokenizer);

  /// Throws Error(kInvalidArgument) also for what the template itself refuses, with its words.
  RenderedPrompt render(std::span<const ChatMessage> messages,
                        bool add_generation_prompt) const override;
  RenderedPrompt render_chat(std::span<const ChatMessage> messages,
                             const ChatOptions& options) const override;
  std::optional<ReasoningTags> reasoning() const override { return reasoning_; }
  /// Special tokens that followed the assistant's text on trial, e.g. {"<|im_end|>"}.
  std::vector<std::string> turn_ends() const override { return turn_ends_; }
  std::string description() const override;

 private:
  jinja::RenderResult render_dialog(std::span<const ChatMessage> messages,
                                    const ChatOptions& options) const;
  void find_turn_ends(const Tokenizer& tokenizer);

  jinja::Template template_;
  jinja::Dict special_texts_;  ///< bos_token, eos_token and others, as the template names them
  std::vector<std::string> turn_ends_;
  std::optional<ReasoningTags> reasoning_;
};

}  // namespace sluice
