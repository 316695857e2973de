// Fuzz target: any bytes as a tokenizer.json, and any bytes as the text it encodes.
//
// The input is the file, a zero byte, and the text. A file is refused with an Error or works; then
// every id is a token, encoding gives the same twice (the second time from what was learned), and
// decoding and the bytes of tokens work for all of them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/tokenizer/hf_tokenizer.hpp"

using namespace sluice;

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(data, data + size);
  const std::size_t json_end = std::min(input.find('\0'), input.size());
  const std::string text = input.substr(std::min(json_end + 1, input.size()));

  std::shared_ptr<const Tokenizer> tokenizer;
  try {
    tokenizer = parse_hf_tokenizer(std::string_view(input).substr(0, json_end), "input");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kUnsupported,
            "the code of a refusal");
    return 0;
  }
  for (const bool parse_special : {false, true}) {
    const EncodeOptions options = {.add_special = parse_special, .parse_special = parse_special};
    const std::vector<TokenId> ids = tokenizer->encode(text, options);
    require(tokenizer->encode(text, options) == ids, "the same text gives the same ids");
    for (const TokenId id : ids) {
      require(id >= 0 && static_cast<std::size_t>(id) < tokenizer->vocab_size(),
              "the range of ids");
      tokenizer->token_bytes(id);
    }
    tokenizer->decode(ids, parse_special);
  }
  return 0;
}
