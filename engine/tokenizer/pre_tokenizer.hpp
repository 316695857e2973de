// Splits text into the pieces inside which byte-level BPE may merge.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/regex.hpp"

namespace sluice {

/// How the model family that a name stands for splits text, and what goes with it.
struct PreTokenizerRules {
  std::span<const std::string_view> names;     ///< values of tokenizer.ggml.pre
  std::span<const std::string_view> patterns;  ///< applied one after the other
  bool ignore_merges = false;    ///< a piece that is a token is taken whole, without merging
  bool default_add_bos = false;  ///< put the start token first when the model does not say
  bool normalize_nfc = false;    ///< text is brought to Unicode form C first
};

/// Rules by name; null for an unknown name.
const PreTokenizerRules* find_pre_tokenizer(std::string_view name);

/// All rules, each with its names, the most common one first.
std::span<const PreTokenizerRules> all_pre_tokenizers();

/// All names, comma-separated, for messages.
std::string known_pre_tokenizers();

/// Compiled rules. Immutable; safe to use from any thread.
class PreTokenizer {
 public:
  /// Throws Error(kInternal) for a faulty pattern.
  explicit PreTokenizer(std::span<const std::string_view> patterns);

  /// Appends to `pieces` consecutive views that cover `text` exactly. Each pattern cuts every
  /// piece that the patterns before it left into its matches and what lies between them. Bytes
  /// that are not UTF-8 become pieces of their own, one byte each.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  std::vector<Regex> patterns_;
};

}  // namespace sluice
