// libFuzzer target: arbitrary bytes, stop sets and split points against the plain reference.
//
// The input is read as: options, stop strings, then the tokens' bytes with their lengths. Whatever
// the bytes, the text shown after every token must be what the reference allows.
//
//   cmake -DSLUICE_FUZZ=ON ... && build/.../stop_fuzz -max_total_time=60
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/stream/token_pipeline.hpp"
#include "tests/engine/stream/table_tokenizer.hpp"
#include "tests/support/reference_stop.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Takes numbers and texts off the front of the input; zeros when it is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }
  std::size_t below(std::size_t limit) {
    if (size_ == 0) return 0;
    --size_;
    return *data_++ % limit;
  }
  std::string text(std::size_t bytes) {
    std::string out;
    for (; bytes > 0 && size_ > 0; --bytes, --size_) out += static_cast<char>(*data_++);
    return out;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

PipelineOptions read_options(Input& in) {
  PipelineOptions options;
  options.limits.max_new_tokens = 1000;
  options.stop.min_new_tokens = static_cast<Position>(in.below(4));
  if (in.below(3) == 0) {
    options.reasoning = ReasoningMarkers{to_valid_utf8(in.text(1 + in.below(3))),
                                         to_valid_utf8(in.text(1 + in.below(3))), in.below(2) == 1};
    if (options.reasoning->open.empty() || options.reasoning->close.empty()) {
      options.reasoning.reset();
    }
  }
  const std::size_t count = in.below(6);
  for (std::size_t i = 0; i < count; ++i) {
    StopString string;
    string.boundary = static_cast<StopBoundary>(in.below(3));
    string.scope = static_cast<StopScope>(in.below(3));
    string.include = in.below(2) == 1;
    string.text = to_valid_utf8(in.text(1 + in.below(6)));
    if (!string.text.empty()) options.stop.stop_strings.push_back(std::move(string));
  }
  return options;
}

struct Expected {
  std::string shown;
  bool stopped = false;
};

Expected expected_after(const PipelineOptions& options, const std::vector<std::string>& tokens,
                        std::size_t count, bool at_end) {
  const auto min = static_cast<std::size_t>(options.stop.min_new_tokens);
  std::string bytes;
  std::size_t forgotten = 0;
  for (std::size_t i = 0; i < count; ++i) {
    bytes += tokens[i];
    if (i + 1 < min) forgotten = decode_plainly(bytes).text.size();
  }
  DecodedText decoded = decode_plainly(bytes);
  if (at_end && decoded.open) decoded.text += "\xEF\xBF\xBD";
  if (count < min) forgotten = decoded.text.size();
  const ReferenceResult result =
      find_stop_plainly(decoded.text, options.stop.stop_strings, forgotten, options.reasoning);
  Expected expected{decoded.text, result.stop.has_value()};
  if (result.stop) {
    const bool include = options.stop.stop_strings[result.stop->index].include;
    expected.shown.resize(include ? result.stop->end : result.stop->begin);
  } else if (!at_end) {
    expected.shown.resize(decoded.text.size() - result.held);
  }
  return expected;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size < 96 ? size : 96);  // the reference is cubic
  const PipelineOptions options = read_options(in);
  std::vector<std::string> tokens;
  while (!in.empty()) tokens.push_back(in.text(in.below(6)));

  TokenPipeline pipeline(options, std::make_shared<TableTokenizer>(tokens));
  std::string text;
  std::size_t delivered = 0;
  const auto take = [&](const std::vector<TokenPiece>& pieces) {
    for (const TokenPiece& piece : pieces) {
      text += piece.text;
      if (piece.id == kNoToken) continue;
      require(piece.id == static_cast<TokenId>(delivered), "every token once and in order");
      ++delivered;
    }
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::vector<TokenPiece> pieces;
    const auto verdict = pipeline.push({static_cast<TokenId>(i), 0.0F, 1.0F, {}}, false, pieces);
    take(pieces);
    const Expected expected = expected_after(options, tokens, i + 1, false);
    require(text == expected.shown, "the text shown after a token");
    require(verdict.has_value() == expected.stopped, "the stop");
    if (!verdict) continue;
    require(delivered == i + 1, "all tokens are delivered at a stop");
    return 0;
  }
  std::vector<TokenPiece> pieces;
  pipeline.finish(pieces);
  take(pieces);
  require(text == expected_after(options, tokens, tokens.size(), true).shown, "the final text");
  require(delivered == tokens.size(), "all tokens are delivered at the end");
  return 0;
}
