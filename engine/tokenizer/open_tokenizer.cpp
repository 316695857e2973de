// make_tokenizer() and open_tokenizer(): which kind of tokenizer a model asks for.
#include "engine/tokenizer/tokenizer.hpp"

#include <fmt/format.h>

#include <fstream>
#include <system_error>

#include "engine/base/error.hpp"
#include "engine/formats/quote_text.hpp"
#include "engine/tokenizer/bpe_tokenizer.hpp"
#include "engine/tokenizer/hf_tokenizer.hpp"
#include "engine/tokenizer/spm_tokenizer.hpp"
#include "engine/tokenizer/ugm_tokenizer.hpp"

namespace sluice {

namespace {

/// Whether the first thing in a file is an opening brace.
bool begins_as_json(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  char first = 0;
  return file >> first && first == '{';
}

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(const ModelSource& source,
                                                const TokenizerOptions& options) {
  const std::string* model = source.get_string("tokenizer.ggml.model");
  if (model == nullptr) {
    std::error_code ignored;
    if (std::filesystem::is_directory(source.path(), ignored)) {
      return open_tokenizer(source.path(), options);
    }
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} contains no tokenizer (tokenizer.ggml.model); use a file that "
                            "includes its vocabulary.",
                            source.path().string()));
  }
  if (*model == "gpt2") return make_bpe_tokenizer(source, options);
  if (*model == "llama") return make_spm_tokenizer(source);
  if (*model == "t5") return make_ugm_tokenizer(source);
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("{} uses a tokenizer of the kind {}, which this build does not know; it "
                  "knows gpt2 (byte-level BPE), llama (SentencePiece BPE) and t5 (unigram).",
                  source.path().string(), quote_text(*model)));
}

std::shared_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& path,
                                                const TokenizerOptions& options) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const std::filesystem::path inside = path / "tokenizer.json";
    if (!std::filesystem::is_regular_file(inside, ignored)) {
      throw Error(ErrorCode::kNotFound,
                  fmt::format("The folder {} has no tokenizer.json; save the tokenizer in that "
                              "format (a tokenizer.model or vocab.txt by itself is not read).",
                              path.string()));
    }
    return read_hf_tokenizer(inside);
  }
  if (begins_as_json(path)) return read_hf_tokenizer(path);
  return make_tokenizer(*open_model(path), options);
}

}  // namespace sluice
