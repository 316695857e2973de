// Conversation to prompt text.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/chat/reasoning.hpp"
#include "engine/formats/model_source.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace sluice {

struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant"; templates may know "tool" and others
  std::string content;
  std::string reasoning_content{};  ///< what an assistant thought before the content
  std::string tool_calls{};         ///< of an assistant: a JSON array, as the chat API has it
  std::string tool_call_id{};       ///< of a tool: the call that the content answers
  std::string name{};               ///< of a tool or a participant
};

/// What goes to the template besides the messages.
struct ChatOptions {
  bool add_generation_prompt = true;
  std::string tools{};  ///< a JSON array of tool descriptions; empty: none
  /// A JSON object; its members are variables of the template, e.g. {"enable_thinking": false}.
  std::string template_options{};
};

/// A rendered prompt. `literal` are the ranges that came from message contents: encode with
/// parse_special and these ranges, so that nobody can type a special token.
struct RenderedPrompt {
  std::string text;
  std::vector<TextRange> literal;
};

/// How a conversation becomes a prompt. Immutable; safe to use from any thread.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;

  /// Throws Error(kInvalidArgument) for a conversation that the template refuses (no messages,
  /// unknown role), saying which message and why.
  virtual RenderedPrompt render(std::span<const ChatMessage> messages,
                                bool add_generation_prompt) const = 0;

  /// The same with tools and options. Templates that know of neither render the messages alone.
  /// Throws Error(kInvalidArgument) also when one of the JSON texts is not what it should be.
  virtual RenderedPrompt render_chat(std::span<const ChatMessage> messages,
                                     const ChatOptions& options) const {
    return render(messages, options.add_generation_prompt);
  }

  /// How the model marks its reasoning; nothing when it does not.
  virtual std::optional<ReasoningTags> reasoning() const { return std::nullopt; }

  /// Texts that end the assistant's turn in this template, e.g. {"<|im_end|>"}.
  virtual std::vector<std::string> turn_ends() const = 0;

  /// For `sluice inspect`, e.g. "Jinja (the model's own template; turns end
  /// with <|im_end|>)".
  virtual std::string description() const = 0;
};

/// Picks the template for a model: its own, rendered as Jinja; without one, ChatML when the
/// vocabulary has its marks, otherwise a plain fallback. When the model's own template is broken,
/// the description says so and why.
std::shared_ptr<const ChatTemplate> make_chat_template(const ModelSource& source,
                                                       const Tokenizer& tokenizer);

}  // namespace sluice
