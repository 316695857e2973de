#include "engine/tokenizer/tokenizer.hpp"

namespace sluice {

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string text;
  for (const TokenId id : ids) {
    if (skip_special && is_special(id)) continue;
    text += token_bytes(id);
  }
  if (adds_space_prefix() && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

}  // namespace sluice
