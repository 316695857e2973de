#include "engine/tokenizer/vocabulary.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace sluice {
namespace {

/// Texts that end a turn in published models. Converters often name only one of them as the
/// end of sequence, and a model whose end of turn is not known never stops.
constexpr std::string_view kTurnEnds[] = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
    "<|endofturn|>",
    "<|end_of_turn|>",
    "<end_of_turn>",
    "<|return|>",
    "<|call|>",
    "<|eot|>",
    "<|eos|>",
    "</s>",
    "<eos>",
    "<EOT>",
    "_<EOT>",
    "[EOS]",
    "[EOT]",
    "<end_of_utterance>",
    "<turn|>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",  // DeepSeek, with wide bars
};

bool is_turn_end(const VocabularyEntry& entry) {
  if (std::find(std::begin(kTurnEnds), std::end(kTurnEnds), entry.text) == std::end(kTurnEnds)) {
    return false;
  }
  // As an added word, "</s>" may be meant as markup; the other marks are never words.
  return entry.kind == TokenKind::kControl ||
         (entry.kind == TokenKind::kUserDefined && entry.text != "</s>");
}

}  // namespace

void add_known_turn_ends(Vocabulary& vocabulary) {
  std::vector<TokenId>& ends = vocabulary.end_tokens;
  TokenId end = -1;
  bool has_return = false;
  bool has_call = false;
  for (std::size_t i = 0; i < vocabulary.entries.size(); ++i) {
    const VocabularyEntry& entry = vocabulary.entries[i];
    if (!is_turn_end(entry)) continue;
    const auto id = static_cast<TokenId>(i);
    ends.push_back(id);
    if (entry.text == "<|end|>") end = id;
    has_return = has_return || entry.text == "<|return|>";
    has_call = has_call || entry.text == "<|call|>";
  }
  // In the harmony format <|end|> only separates the parts of one answer.
  if (has_return && has_call) std::erase(ends, end);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

}  // namespace sluice
