// Fuzz target: any bytes as a stop pattern, and any bytes as the text it is searched in.
//
// The input is the pattern, a line feed, and the text. A pattern is refused with an Error or
// works; then the split of the text over calls makes no difference, a match is made of held-back
// text alone, and what was safe to show stays so.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/stream/pattern_matcher.hpp"
#include "engine/stream/utf8_accumulator.hpp"
#include "engine/stream/utf8_decode.hpp"

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
  const std::size_t line_end = std::min(input.find('\n'), input.size());
  const StopPattern pattern{.pattern = input.substr(0, line_end)};
  const std::string text = to_valid_utf8(std::string_view(input).substr(line_end));

  std::optional<PatternMatcher> whole;
  try {
    whole.emplace(std::span(&pattern, 1));
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kInvalidArgument, "the code of a refusal");
    return 0;
  }
  const auto expected = whole->feed(text);

  PatternMatcher split(std::span(&pattern, 1));
  std::uint64_t safe = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t bytes = decode_code_point(rest).size;
    if (const auto match = split.feed(rest.substr(0, bytes))) {
      require(expected && expected->begin == match->begin && expected->end == match->end,
              "the match does not depend on the split");
      require(match->begin >= safe && match->begin < match->end, "the match was held back");
      require(match->end - match->begin <= 1024, "the length of a match");
      return 0;
    }
    require(split.safe_end() >= safe, "what was safe stays safe");
    safe = split.safe_end();
    rest.remove_prefix(bytes);
  }
  require(!expected, "no match depends on the split");
  require(safe == whole->safe_end(), "the hold-back does not depend on the split");
  return 0;
}
