// A tokenizer whose vocabulary is a list of byte strings, for tests of everything behind it.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tokenizer/tokenizer.hpp"

namespace sluice::test {

class TableTokenizer final : public Tokenizer {
 public:
  explicit TableTokenizer(std::vector<std::string> tokens, std::set<TokenId> special = {})
      : tokens_(std::move(tokens)), special_(std::move(special)) {}

  std::vector<TokenId> encode(std::string_view, const EncodeOptions&) const override { return {}; }
  std::size_t vocab_size() const override { return tokens_.size(); }
  std::string_view token_bytes(TokenId id) const override {
    return id >= 0 && static_cast<std::size_t>(id) < tokens_.size()
               ? std::string_view(tokens_[static_cast<std::size_t>(id)])
               : std::string_view();
  }
  bool is_special(TokenId id) const override { return special_.contains(id); }
  TokenId find_special(std::string_view) const override { return -1; }
  TokenId bos() const override { return -1; }
  std::span<const TokenId> end_tokens() const override { return {}; }
  std::string description() const override { return "table"; }

 protected:
  bool adds_space_prefix() const override { return false; }

 private:
  std::vector<std::string> tokens_;
  std::set<TokenId> special_;
};

}  // namespace sluice::test
