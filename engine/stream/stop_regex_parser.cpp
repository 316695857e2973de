#include "engine/stream/stop_regex_parser.hpp"

#include <optional>
#include <string>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/stream/utf8_decode.hpp"

namespace sluice {
namespace {

constexpr int kMaxDepth = 30;
constexpr std::int32_t kMaxRepeats = 1000;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  RegexTree parse() {
    tree_.root = choice();
    if (!at_end()) fail("has a ) without its (; write \\) for the character");
    return std::move(tree_);
  }

 private:
  using Kind = RegexNode::Kind;

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kInvalidArgument, what + " (at byte " + std::to_string(at_) + ").");
  }

  // -- characters -----------------------------------------------------------------------------

  bool at_end() const { return at_ >= pattern_.size(); }
  char peek() const { return at_end() ? '\0' : pattern_[at_]; }
  bool take(std::string_view expected) {
    if (!pattern_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  char32_t code_point() {
    const DecodedCodePoint decoded = decode_code_point(pattern_.substr(at_));
    at_ += decoded.size;
    return decoded.value;
  }

  // -- the grammar, from the outside in -------------------------------------------------------

  std::int32_t choice() {
    if (++depth_ > kMaxDepth) fail("is nested more than 30 deep");
    std::vector<std::int32_t> ways{sequence()};
    while (take("|")) ways.push_back(sequence());
    --depth_;
    return ways.size() == 1 ? ways[0] : add({.kind = Kind::kChoice, .parts = std::move(ways)});
  }

  std::int32_t sequence() {
    std::vector<std::int32_t> parts;
    while (!at_end() && peek() != '|' && peek() != ')') parts.push_back(repeated());
    if (parts.empty()) return add({});
    return parts.size() == 1 ? parts[0] : add({.kind = Kind::kSequence, .parts = std::move(parts)});
  }

  std::int32_t repeated() {
    const std::int32_t what = single();
    std::pair<std::int32_t, std::int32_t> times;
    if (take("*")) {
      times = {0, RegexNode::kUnlimited};
    } else if (take("+")) {
      times = {1, RegexNode::kUnlimited};
    } else if (take("?")) {
      times = {0, 1};
    } else if (take("{")) {
      times = counts();
    } else {
      return what;
    }
    take("?");  // lazy: no difference
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') {
      fail("repeats a repetition; put the inner one in parentheses");
    }
    return add({.kind = Kind::kRepeat, .min = times.first, .max = times.second, .parts = {what}});
  }

  /// Behind "{": "3}", "2,}" or "2,5}".
  std::pair<std::int32_t, std::int32_t> counts() {
    const char* const usage = "has a { that begins no repetition; write \\{ for the character";
    const auto number = [&] {
      std::int32_t value = 0;
      if (!is_digit(peek())) fail(usage);
      while (is_digit(peek())) {
        value = value * 10 + (pattern_[at_++] - '0');
        if (value > kMaxRepeats) fail("repeats something more than 1000 times");
      }
      return value;
    };
    const std::int32_t min = number();
    std::int32_t max = min;
    if (take(",")) max = peek() == '}' ? RegexNode::kUnlimited : number();
    if (!take("}")) fail(usage);
    if (max != RegexNode::kUnlimited && max < min) fail("has a repetition of more than its most");
    return {min, max};
  }

  std::int32_t single() {
    if (take("(")) return group();
    if (take("[")) return chars(bracket());
    if (take("\\")) return chars(escape_set());
    if (take("^")) return add({.kind = Kind::kLineStart});
    if (take(".")) return chars(CodePointSet({{'\n', '\n'}}).complement());
    switch (peek()) {
      case '*':
      case '+':
      case '?':
      case '{':
        fail("repeats nothing; write a \\ before the character if it is meant");
      case '$':
        fail("has a $, which is not possible in a stream: what comes next is not known yet");
      default:
        break;
    }
    const char32_t c = code_point();
    return chars(CodePointSet({{c, c}}));
  }

  std::int32_t group() {
    if (take("?") && !take(":")) fail("has a kind of group that is not supported");
    const std::int32_t inside = choice();
    if (!take(")")) fail("has a ( without its )");
    return inside;
  }

  /// Behind "[".
  CodePointSet bracket() {
    const bool negated = take("^");
    std::vector<CodePointRange> ranges;
    bool first = true;
    while (first || peek() != ']') {
      if (at_end()) fail("has a [ without its ]");
      first = false;
      const CodePointSet low = bracket_item();
      ranges.insert(ranges.end(), low.ranges().begin(), low.ranges().end());
      if (peek() != '-' || pattern_.substr(at_).starts_with("-]")) continue;
      ++at_;
      if (at_end()) fail("has a [ without its ]");
      const CodePointSet high = bracket_item();
      const auto from = only(low);
      const auto to = only(high);
      if (!from || !to || *from > *to) fail("has a range in [ ] that is none");
      ranges.push_back({*from, *to});
    }
    ++at_;
    CodePointSet set(std::move(ranges));
    return negated ? set.complement() : set;
  }

  CodePointSet bracket_item() {
    if (take("\\")) return escape_set();
    if (pattern_.substr(at_).starts_with("[:")) fail("has a named class, which is not supported");
    const char32_t c = code_point();
    return CodePointSet({{c, c}});
  }

  static std::optional<char32_t> only(const CodePointSet& set) {
    const auto& ranges = set.ranges();
    if (ranges.size() != 1 || ranges[0].first != ranges[0].last) return std::nullopt;
    return ranges[0].first;
  }

  /// Behind "\".
  CodePointSet escape_set() {
    const char name = peek();
    const CodePointSet digits({{'0', '9'}});
    const CodePointSet words({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}});
    const CodePointSet spaces({{'\t', '\r'}, {' ', ' '}});
    if (take("d")) return digits;
    if (take("D")) return digits.complement();
    if (take("w")) return words;
    if (take("W")) return words.complement();
    if (take("s")) return spaces;
    if (take("S")) return spaces.complement();
    const char32_t c = escaped_character(name);
    return CodePointSet({{c, c}});
  }

  char32_t escaped_character(char name) {
    if (at_end()) fail("ends with a \\");
    if (take("n")) return '\n';
    if (take("t")) return '\t';
    if (take("r")) return '\r';
    if (take("f")) return '\f';
    if (take("v")) return '\v';
    if (take("x")) return hex_digits(2, 2);
    if (take("u{")) {
      const char32_t c = hex_digits(1, 6);
      if (!take("}")) fail("has a \\u{ without its }");
      return c;
    }
    if (take("u")) return hex_digits(4, 4);
    if (name == '0' && !is_digit(pattern_.substr(at_).size() > 1 ? pattern_[at_ + 1] : '\0')) {
      ++at_;
      return 0;
    }
    const bool punctuation = name > ' ' && name < 0x7F && !is_digit(name) && name != '_' &&
                             !((name | 0x20) >= 'a' && (name | 0x20) <= 'z');
    if (!punctuation && name != ' ') fail("has a \\ before a character that is not supported");
    ++at_;
    return static_cast<unsigned char>(name);
  }

  char32_t hex_digits(int least, int most) {
    char32_t value = 0;
    int count = 0;
    for (; count < most && hex_value(peek()) >= 0; ++count) {
      value = value * 16 + static_cast<char32_t>(hex_value(pattern_[at_++]));
    }
    const bool surrogate = value >= 0xD800 && value < 0xE000;
    if (count < least || value > CodePointSet::kLast || surrogate) {
      fail("has a character in hexadecimal that does not exist");
    }
    return value;
  }

  // -- the tree -------------------------------------------------------------------------------

  std::int32_t add(RegexNode node) {
    tree_.nodes.push_back(std::move(node));
    return static_cast<std::int32_t>(tree_.nodes.size() - 1);
  }
  std::int32_t chars(CodePointSet set) {
    tree_.sets.push_back(std::move(set));
    return add({.kind = Kind::kChars, .set = static_cast<std::int32_t>(tree_.sets.size() - 1)});
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  int depth_ = 0;
  RegexTree tree_;
};

}  // namespace

RegexTree parse_stop_regex(std::string_view pattern) {
  return Parser(pattern).parse();
}

}  // namespace sluice
