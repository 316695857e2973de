#include "engine/tokenizer/tokenizer.hpp"

#include <fmt/format.h>

#include "engine/base/error.hpp"
#include "engine/formats/quote_text.hpp"
#include "engine/tokenizer/bpe_tokenizer.hpp"
#include "engine/tokenizer/spm_tokenizer.hpp"

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

std::shared_ptr<const Tokenizer> make_tokenizer(const ModelSource& source) {
  const std::string* model = source.get_string("tokenizer.ggml.model");
  if (model == nullptr) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} contains no tokenizer (tokenizer.ggml.model); use a file that "
                            "includes its vocabulary.",
                            source.path().string()));
  }
  if (*model == "gpt2") return make_bpe_tokenizer(source);
  if (*model == "llama") return make_spm_tokenizer(source);
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{} uses a tokenizer of the kind {}, which this build does not know; it "
                          "knows gpt2 (byte-level BPE) and llama (SentencePiece BPE).",
                          source.path().string(), quote_text(*model)));
}

}  // namespace sluice
