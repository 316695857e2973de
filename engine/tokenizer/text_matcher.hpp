// Finds whole texts out of a fixed set at a position, longest first.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/types.hpp"

namespace sluice {

/// Set of texts with an id each. Looking at a position costs one hash per distinct length of the
/// texts that begin with the byte there, and nothing where none does.
class TextMatcher {
 public:
  /// Adds a non-empty text; a text added twice keeps its first id.
  void add(std::string_view text, TokenId id) {
    if (!ids_.emplace(text, id).second) return;
    std::vector<std::size_t>& lengths = lengths_[static_cast<unsigned char>(text.front())];
    auto place = lengths.begin();
    while (place != lengths.end() && *place > text.size()) ++place;
    if (place == lengths.end() || *place != text.size()) lengths.insert(place, text.size());
  }

  /// Calls accept(id, length) for each text that stands at `text[at]`, longest first, until it
  /// returns true; false when none did.
  template <class Accept>
  bool match(std::string_view text, std::size_t at, Accept accept) const {
    for (const std::size_t length : lengths_[static_cast<unsigned char>(text[at])]) {
      if (length > text.size() - at) continue;
      const auto found = ids_.find(text.substr(at, length));
      if (found != ids_.end() && accept(found->second, length)) return true;
    }
    return false;
  }

  /// Id of exactly this text, or -1.
  TokenId find(std::string_view text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? -1 : found->second;
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
  std::array<std::vector<std::size_t>, 256> lengths_;  // by first byte, descending
};

}  // namespace sluice
