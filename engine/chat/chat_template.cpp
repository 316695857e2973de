#include "engine/chat/chat_template.hpp"

#include "engine/chat/chatml_template.hpp"
#include "engine/chat/jinja_chat_template.hpp"
#include "engine/chat/plain_template.hpp"
#include "engine/chat/template_text.hpp"

namespace sluice {
namespace {

bool is_chatml(const std::string& text) {
  return text.find(kChatmlStart) != std::string::npos && text.find(kChatmlEnd) != std::string::npos;
}

bool has_chatml_marks(const Tokenizer& tokenizer) {
  return tokenizer.find_special(kChatmlStart) >= 0 && tokenizer.find_special(kChatmlEnd) >= 0;
}

}  // namespace

std::shared_ptr<const ChatTemplate> make_chat_template(const ModelSource& source,
                                                       const Tokenizer& tokenizer) {
  const std::optional<std::string> own = find_template_text(source);
  if (!own) {
    if (has_chatml_marks(tokenizer)) {
      return std::make_shared<ChatmlTemplate>("from the marks in the model's vocabulary",
                                              reasoning_markers("", tokenizer));
    }
    return std::make_shared<PlainTemplate>("the model has no chat template");
  }
  try {
    return std::make_shared<JinjaChatTemplate>(*own, source, tokenizer);
  } catch (const jinja::TemplateError& error) {
    const std::string reason = std::string("the model's own template is broken: ") + error.what();
    if (is_chatml(*own))
      return std::make_shared<ChatmlTemplate>(reason, reasoning_markers(*own, tokenizer));
    return std::make_shared<PlainTemplate>(reason);
  }
}

}  // namespace sluice
