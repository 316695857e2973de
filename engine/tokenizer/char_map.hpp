// SentencePiece's precompiled table of text rewritings ("charsmap").
//
// Its bytes: the size of a trie in bytes (32 bits, little-endian), the trie as a double array of
// 32-bit units, then the replacement texts, each ended by a zero byte. Source: Darts-clone's
// double array, as SentencePiece stores it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

class CharMap {
 public:
  /// Throws Error(kCorrupt) when the parts do not fit into each other.
  explicit CharMap(std::string_view bytes);

  struct Match {
    std::size_t size = 0;  ///< bytes of the text that are replaced; 0: no match
    std::string_view replacement;
  };
  /// The shortest, or the longest, entry that `text` begins with.
  Match shortest(std::string_view text) const { return find(text, false); }
  Match longest(std::string_view text) const { return find(text, true); }

 private:
  Match find(std::string_view text, bool longest) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace sluice
