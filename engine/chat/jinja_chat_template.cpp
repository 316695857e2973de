#include "engine/chat/jinja_chat_template.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "engine/chat/conversation_check.hpp"
#include "engine/chat/message_values.hpp"

namespace sluice {

namespace {

using jinja::Dict;
using jinja::Value;

void add_special_text(Dict& texts, std::string_view name, std::int64_t id,
                      const Tokenizer& tokenizer) {
  if (id < 0 || static_cast<std::uint64_t>(id) >= tokenizer.vocab_size()) return;
  texts.set(Value::text(name), Value::text(tokenizer.token_bytes(static_cast<TokenId>(id))));
}

/// What Hugging Face templates call them. A name stays undefined when the model has no such token.
Dict special_texts(const ModelSource& model, const Tokenizer& tokenizer) {
  Dict texts;
  add_special_text(texts, "bos_token", tokenizer.bos(), tokenizer);
  for (const auto& [name, key] : {std::pair("eos_token", "tokenizer.ggml.eos_token_id"),
                                  std::pair("unk_token", "tokenizer.ggml.unknown_token_id"),
                                  std::pair("pad_token", "tokenizer.ggml.padding_token_id")}) {
    add_special_text(texts, name, model.get_int(key).value_or(-1), tokenizer);
  }
  return texts;
}

/// The longest special token that `text` begins with; empty when there is none.
std::string leading_special(std::string_view text, const Tokenizer& tokenizer) {
  std::string_view best;
  for (std::size_t i = 0; i < tokenizer.vocab_size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!tokenizer.is_special(id)) continue;
    const std::string_view token = tokenizer.token_bytes(id);
    if (token.size() > best.size() && text.starts_with(token)) best = token;
  }
  return std::string(best);
}

}  // namespace

JinjaChatTemplate::JinjaChatTemplate(const std::string& source, const ModelSource& model,
                                     const Tokenizer& tokenizer)
    : template_(jinja::Template::parse(source, "tokenizer.chat_template")),
      special_texts_(special_texts(model, tokenizer)),
      reasoning_(reasoning_markers(source, tokenizer)) {
  find_turn_ends(tokenizer);
}

RenderedPrompt JinjaChatTemplate::render(std::span<const ChatMessage> messages,
                                         bool add_generation_prompt) const {
  return render_chat(messages, {.add_generation_prompt = add_generation_prompt});
}

RenderedPrompt JinjaChatTemplate::render_chat(std::span<const ChatMessage> messages,
                                              const ChatOptions& options) const {
  check_conversation(messages, kRolesOfTemplates);
  jinja::RenderResult result = render_dialog(messages, options);
  RenderedPrompt prompt;
  prompt.text = std::move(result.text);
  for (const jinja::ByteRange& range : result.untrusted) {
    prompt.literal.push_back({range.begin, range.end});
  }
  return prompt;
}

std::string JinjaChatTemplate::description() const {
  std::string text = "Jinja (the model's own template; ";
  if (turn_ends_.empty()) return text + "no special token ends its turns)";
  text += "turns end with ";
  for (std::size_t i = 0; i < turn_ends_.size(); ++i) {
    text += (i == 0 ? "" : " or ") + turn_ends_[i];
  }
  return text + ")";
}

jinja::RenderResult JinjaChatTemplate::render_dialog(std::span<const ChatMessage> messages,
                                                     const ChatOptions& options) const {
  Dict context = special_texts_;
  context.set(Value::text("messages"), message_values(messages));
  context.set(Value::text("add_generation_prompt"), Value::boolean(options.add_generation_prompt));
  // Hugging Face always passes these two.
  context.set(Value::text("tools"),
              options.tools.empty() ? Value() : json_array(options.tools, "The tools"));
  context.set(Value::text("documents"), Value());
  add_template_options(context, options.template_options);
  // Published templates append to lists, which the strict sandbox refuses.
  return template_.render(Value::dict(std::move(context)), {.relaxed = true});
}

void JinjaChatTemplate::find_turn_ends(const Tokenizer& tokenizer) {
  static constexpr std::string_view kAnswer = "Answer-on-trial";
  const std::vector<ChatMessage> dialog = {
      {"user", "First"}, {"assistant", std::string(kAnswer)}, {"user", "Second"}};
  // Some templates end the last turn differently from those before it.
  for (const std::size_t length : {std::size_t{2}, std::size_t{3}}) {
    try {
      const std::string text =
          render_dialog(std::span(dialog).first(length), {.add_generation_prompt = false}).text;
      const std::size_t answer = text.rfind(kAnswer);
      if (answer == std::string::npos) continue;
      const std::size_t after =
          std::min(text.find_first_not_of(" \t\r\n", answer + kAnswer.size()), text.size());
      std::string token = leading_special(std::string_view(text).substr(after), tokenizer);
      if (!token.empty() &&
          std::find(turn_ends_.begin(), turn_ends_.end(), token) == turn_ends_.end()) {
        turn_ends_.push_back(std::move(token));
      }
    } catch (const jinja::TemplateError&) {
      continue;  // a template may refuse this conversation; others will show it
    }
  }
}

}  // namespace sluice
