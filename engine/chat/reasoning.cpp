#include "engine/chat/reasoning.hpp"

namespace sluice {
namespace {

struct Known {
  std::string_view open;
  std::string_view close;
};

/// Tags of published models, the more particular ones first.
constexpr Known kKnown[] = {{"<|START_THINKING|>", "<|END_THINKING|>"},   // Command R7B and A
                            {"<seed:think>", "</seed:think>"},            // Seed OSS
                            {"\u25C1think\u25B7", "\u25C1/think\u25B7"},  // Kimi VL
                            {"[THINK]", "[/THINK]"},                      // Magistral, Ministral
                            {"<think>", "</think>"},  // DeepSeek R1, Qwen 3, GLM and many more
                            {"<thinking>", "</thinking>"},
                            {"<reasoning>", "</reasoning>"}};

bool is_token(std::string_view text, const Tokenizer& tokenizer) {
  return tokenizer.find_special(text) >= 0;
}

}  // namespace

std::optional<ReasoningTags> reasoning_markers(std::string_view template_text,
                                               const Tokenizer& tokenizer) {
  for (const Known& tags : kKnown) {
    if (template_text.find(tags.close) != std::string_view::npos) {
      return ReasoningTags{std::string(tags.open), std::string(tags.close)};
    }
  }
  for (const Known& tags : kKnown) {
    if (is_token(tags.open, tokenizer) && is_token(tags.close, tokenizer)) {
      return ReasoningTags{std::string(tags.open), std::string(tags.close)};
    }
  }
  return std::nullopt;
}

bool ends_in_reasoning(std::string_view prompt, const ReasoningTags& tags) {
  const std::size_t open = prompt.rfind(tags.open);
  if (open == std::string_view::npos) return false;
  return prompt.find_first_not_of(" \t\r\n", open + tags.open.size()) == std::string_view::npos;
}

}  // namespace sluice
