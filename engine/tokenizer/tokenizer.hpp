// Text to token ids and back.
//
// Worked example, with the bundled model's byte-level BPE:
//   encode("Hello!", {})                 -> the ids of "Hello" and "!"
//   encode("<|im_end|>", {})             -> several ids: user text never makes special tokens
//   encode("<|im_end|>", {.parse_special = true}) -> {2}
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/types.hpp"
#include "engine/formats/model_source.hpp"

namespace sluice {

/// Half-open byte range of a text.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct EncodeOptions {
  bool add_special = false;    ///< add the model's start (and end) tokens as it asks for
  bool parse_special = false;  ///< special-token text outside `literal` becomes special tokens
  /// Ranges, sorted and disjoint, in which special-token text stays plain text (what users typed
  /// into a chat template). Only looked at when parse_special is set.
  std::span<const TextRange> literal = {};
};

struct TokenizerOptions {
  /// Take the default splitting rules where a model names rules that this build does not know,
  /// instead of refusing it. The tokenizer then has a warning().
  bool allow_unknown_pre_tokenizer = false;
};

/// Immutable after construction; safe to use from any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Never throws on any input bytes; invalid UTF-8 is encoded byte by byte (or as the model's
  /// unknown token where it has no byte tokens). Linear in the length of `text`.
  virtual std::vector<TokenId> encode(std::string_view text,
                                      const EncodeOptions& options) const = 0;

  virtual std::size_t vocab_size() const = 0;

  /// The bytes a token adds to the output; may be part of a code point. Special (control) tokens
  /// give their own text, e.g. "<|im_end|>". Out-of-range ids give an empty view.
  virtual std::string_view token_bytes(TokenId id) const = 0;

  /// True for control tokens, which are not shown to users.
  virtual bool is_special(TokenId id) const = 0;

  /// Id of a special token by its exact text, or -1.
  virtual TokenId find_special(std::string_view text) const = 0;

  virtual TokenId bos() const = 0;  ///< -1 when the model has none
  /// Tokens that end a turn: the union of eos, end of turn and end of message keys, sorted.
  virtual std::span<const TokenId> end_tokens() const = 0;
  /// Short description for `sluice inspect`, e.g. "byte-level BPE, gpt-2 splitting, 2048 tokens".
  virtual std::string description() const = 0;

  /// What a user must know before trusting the tokens, in a sentence; mostly empty.
  virtual std::string warning() const { return {}; }

  /// Whole decode of a finished text. Drops special tokens when `skip_special`. May return
  /// invalid UTF-8 when the ids end inside a code point. SentencePiece models lose the one
  /// leading space that encoding added.
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special) const;

 protected:
  /// Whether the model's encoder puts one space before the text.
  virtual bool adds_space_prefix() const = 0;
};

/// Builds the tokenizer that a model asks for: from its metadata, or for a Hugging Face folder
/// from the files there. Throws Error: kCorrupt, kUnsupported (unknown kind of tokenizer or
/// pre-tokenizer, with the list of known ones).
std::shared_ptr<const Tokenizer> make_tokenizer(const ModelSource& source,
                                                const TokenizerOptions& options = {});

/// The tokenizer of a GGUF file, a Hugging Face folder, or a tokenizer.json by itself; weights
/// are not needed. Throws as make_tokenizer and open_model.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& path,
                                                const TokenizerOptions& options = {});

}  // namespace sluice
