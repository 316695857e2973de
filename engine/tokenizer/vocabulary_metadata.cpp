// read_vocabulary(): the token table of a GGUF file.
#include <fmt/format.h>

#include <limits>

#include "engine/base/error.hpp"
#include "engine/tokenizer/vocabulary.hpp"

namespace sluice {
namespace {

[[noreturn]] void corrupt(const ModelSource& source, const std::string& fault) {
  throw Error(ErrorCode::kCorrupt,
              fmt::format("{}: {}; the file is damaged or was written by a faulty converter.",
                          source.path().string(), fault));
}

std::vector<VocabularyEntry> read_entries(const ModelSource& source) {
  const std::vector<std::string>* tokens = source.get_strings("tokenizer.ggml.tokens");
  if (tokens == nullptr || tokens->empty()) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} has no tokens (tokenizer.ggml.tokens); text can't be encoded, so "
                            "use a file that contains its vocabulary.",
                            source.path().string()));
  }
  if (tokens->size() > static_cast<std::size_t>(std::numeric_limits<TokenId>::max())) {
    corrupt(source, fmt::format("a vocabulary of {} tokens is too large", tokens->size()));
  }
  std::vector<VocabularyEntry> entries(tokens->size());
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i].text = (*tokens)[i];

  const std::vector<std::int64_t>* kinds = source.get_ints("tokenizer.ggml.token_type");
  if (kinds == nullptr) return entries;
  if (kinds->size() != entries.size()) {
    corrupt(source, fmt::format("tokenizer.ggml.token_type has {} entries for {} tokens",
                                kinds->size(), entries.size()));
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::int64_t kind = (*kinds)[i];
    if (kind < 0 || kind > static_cast<std::int64_t>(TokenKind::kByte)) {
      corrupt(source, fmt::format("token {} has the unknown type {}", i, kind));
    }
    if (kind != 0) entries[i].kind = static_cast<TokenKind>(kind);  // 0: not stated
  }
  return entries;
}

/// An id by its key. Absent, -1 and 2^32 - 1 (what -1 becomes in some converters) mean none.
TokenId read_id(const ModelSource& source, std::string_view name, const Vocabulary& vocabulary) {
  const std::string key = fmt::format("tokenizer.ggml.{}", name);
  const auto id = source.get_int(key);
  if (!id || *id == -1 || *id == std::numeric_limits<std::uint32_t>::max()) return -1;
  if (*id < 0 || static_cast<std::uint64_t>(*id) >= vocabulary.entries.size()) {
    corrupt(source, fmt::format("{} is {}, outside the vocabulary of {} tokens", key, *id,
                                vocabulary.entries.size()));
  }
  return static_cast<TokenId>(*id);
}

/// Added words and marks are found in text by the texts they have in the file.
std::vector<AddedToken> collect_added(const Vocabulary& vocabulary) {
  std::vector<AddedToken> added;
  for (std::size_t i = 0; i < vocabulary.entries.size(); ++i) {
    const VocabularyEntry& entry = vocabulary.entries[i];
    const bool hidden = is_hidden(entry.kind);
    if (entry.text.empty() || (!hidden && entry.kind != TokenKind::kUserDefined)) continue;
    added.push_back({entry.text, static_cast<TokenId>(i), hidden});
  }
  return added;
}

}  // namespace

Vocabulary read_vocabulary(const ModelSource& source, bool default_add_bos) {
  Vocabulary vocabulary;
  vocabulary.entries = read_entries(source);
  vocabulary.added = collect_added(vocabulary);
  vocabulary.bos = read_id(source, "bos_token_id", vocabulary);
  vocabulary.unknown = read_id(source, "unknown_token_id", vocabulary);
  const TokenId eos = read_id(source, "eos_token_id", vocabulary);
  for (const TokenId id : {eos, read_id(source, "eot_token_id", vocabulary),
                           read_id(source, "eom_token_id", vocabulary)}) {
    if (id >= 0) vocabulary.end_tokens.push_back(id);
  }
  add_known_turn_ends(vocabulary);
  const bool add_bos = source.get_bool("tokenizer.ggml.add_bos_token").value_or(default_add_bos);
  const bool add_eos = source.get_bool("tokenizer.ggml.add_eos_token").value_or(false);
  if (add_bos && vocabulary.bos >= 0) vocabulary.prefix = {vocabulary.bos};
  if (add_eos && eos >= 0) vocabulary.suffix = {eos};
  return vocabulary;
}

}  // namespace sluice
