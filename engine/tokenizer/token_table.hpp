// Token ids by exact text, for the innermost loop of encoding.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/types.hpp"

namespace sluice {

/// Hash table with open addressing, half full at most. A slot keeps a part of the hash, so that a
/// text is compared only where it is almost surely the right one. The texts live elsewhere and
/// must outlive the table.
class TokenTable {
 public:
  explicit TokenTable(std::size_t num_tokens)
      : slots_(std::bit_ceil(2 * num_tokens + 2)), mask_(slots_.size() - 1) {}

  /// Adds a text or replaces its id. At most num_tokens different texts.
  void set(std::string_view text, TokenId id) {
    const std::size_t hash = hash_of(text);
    Slot& slot = slots_[find_slot(text, hash)];
    slot = {text, static_cast<std::uint32_t>(hash >> 32), id};
    longest_ = std::max(longest_, text.size());
  }

  /// Id of exactly this text, or -1.
  TokenId find(std::string_view text) const {
    return text.size() > longest_ ? -1 : slots_[find_slot(text, hash_of(text))].id;
  }

  std::size_t longest() const { return longest_; }

 private:
  struct Slot {
    std::string_view text;
    std::uint32_t hash = 0;
    TokenId id = -1;  ///< -1: the slot is free
  };

  static std::size_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }

  std::size_t find_slot(std::string_view text, std::size_t hash) const {
    std::size_t at = hash & mask_;
    while (slots_[at].id >= 0 &&
           (slots_[at].hash != static_cast<std::uint32_t>(hash >> 32) || slots_[at].text != text)) {
      at = (at + 1) & mask_;
    }
    return at;
  }

  std::vector<Slot> slots_;
  std::size_t mask_;
  std::size_t longest_ = 0;
};

}  // namespace sluice
