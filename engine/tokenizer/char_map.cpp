#include "engine/tokenizer/char_map.hpp"

#include "engine/base/error.hpp"

namespace sluice {
namespace {

[[noreturn]] void corrupt() {
  throw Error(ErrorCode::kCorrupt,
              "the table of text rewritings (precompiled charsmap) contradicts its own sizes; the "
              "file is damaged.");
}

std::uint32_t read_unit(std::string_view bytes, std::size_t at) {
  std::uint32_t unit = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    unit |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return unit;
}

// The fields of a unit of the double array.
bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
std::uint32_t value_of(std::uint32_t unit) {
  return unit & 0x7FFFFFFFU;
}
std::uint32_t label_of(std::uint32_t unit) {
  return unit & 0x800000FFU;
}
std::uint32_t offset_of(std::uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200U) >> 6);
}

}  // namespace

CharMap::CharMap(std::string_view bytes) {
  if (bytes.size() < 4) corrupt();
  const std::size_t trie_bytes = read_unit(bytes, 0);
  if (trie_bytes % 4 != 0 || trie_bytes < 4 || trie_bytes > bytes.size() - 4) corrupt();
  for (std::size_t at = 4; at < 4 + trie_bytes; at += 4) units_.push_back(read_unit(bytes, at));
  replacements_ = bytes.substr(4 + trie_bytes);
  if (replacements_.empty() || replacements_.back() != '\0') replacements_ += '\0';
}

CharMap::Match CharMap::find(std::string_view text, bool longest) const {
  Match best;
  std::size_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) break;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size()) break;
    const std::size_t begin = value_of(units_[node]);
    if (begin >= replacements_.size()) break;
    best = {i + 1, replacements_.c_str() + begin};
    if (!longest) break;
  }
  return best;
}

}  // namespace sluice
