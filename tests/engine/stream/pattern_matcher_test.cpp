// Stop patterns: what they match and hold back, against a plain search of all parts of the text.
#include "engine/stream/pattern_matcher.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "engine/base/error.hpp"
#include "engine/stream/stop_regex.hpp"
#include "tests/engine/stream/random_text.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

std::vector<StopPattern> patterns_of(const std::vector<std::string>& texts) {
  std::vector<StopPattern> patterns;
  for (const std::string& text : texts) patterns.push_back({text});
  return patterns;
}

/// "begin..end index" of the match, or "held n".
std::string found(const std::vector<std::string>& patterns, std::string_view text) {
  PatternMatcher matcher(patterns_of(patterns));
  if (const auto match = matcher.feed(text)) {
    return std::to_string(match->begin) + ".." + std::to_string(match->end) + " " +
           std::to_string(match->index);
  }
  return "held " + std::to_string(text.size() - matcher.safe_end());
}

std::string refusal(const std::string& pattern) {
  try {
    compile_stop_patterns(patterns_of({pattern}));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// -- a plain model --------------------------------------------------------------------------------

/// A random expression as a tree of functions: the ends of all its matches that begin at `begin`.
struct Model {
  using Ends = std::set<std::size_t>;
  std::string text;  ///< as written in a pattern
  std::function<Ends(const std::vector<std::string>& chars, std::size_t begin)> ends;
};

using Chars = std::vector<std::string>;

Model one_of(std::string text, std::set<std::string> taken, bool negated = false) {
  return {std::move(text), [taken, negated](const Chars& chars, std::size_t begin) -> Model::Ends {
            if (begin >= chars.size() || taken.contains(chars[begin]) == negated) return {};
            return {begin + 1};
          }};
}

Model random_model(RandomText& random, int depth) {
  const std::size_t kind = depth == 0 ? random.below(7) : random.below(12);
  if (kind < 3) return one_of("a", {"a"});
  if (kind == 3) return one_of("b", {"b"});
  if (kind == 4) return random.chance(2) ? one_of("\\n", {"\n"}) : one_of("\u00E9", {"\u00E9"});
  if (kind == 5) return random.chance(2) ? one_of(".", {"\n"}, true) : one_of("[^a]", {"a"}, true);
  if (kind == 6) {
    return {"^", [](const Chars& chars, std::size_t begin) -> Model::Ends {
              if (begin == 0 || chars[begin - 1] == "\n") return {begin};
              return {};
            }};
  }
  const Model left = random_model(random, depth - 1);
  if (kind <= 8) {
    const Model right = random_model(random, depth - 1);
    return {left.text + right.text, [left, right](const Chars& chars, std::size_t begin) {
              Model::Ends all;
              for (const std::size_t middle : left.ends(chars, begin)) {
                all.merge(right.ends(chars, middle));
              }
              return all;
            }};
  }
  if (kind == 9) {
    const Model right = random_model(random, depth - 1);
    return {"(" + left.text + "|" + right.text + ")",
            [left, right](const Chars& chars, std::size_t begin) {
              Model::Ends all = left.ends(chars, begin);
              all.merge(right.ends(chars, begin));
              return all;
            }};
  }
  const std::size_t min = random.below(3);
  const std::size_t max = random.chance(2) ? 99 : min + random.below(3);
  const std::string times =
      "{" + std::to_string(min) + "," + (max == 99 ? std::string() : std::to_string(max)) + "}";
  return {"(" + left.text + ")" + times, [left, min, max](const Chars& chars, std::size_t begin) {
            Model::Ends all;
            Model::Ends reached{begin};
            if (min == 0) all.insert(begin);
            for (std::size_t i = 1; i <= std::min(max, min + chars.size() + 1); ++i) {
              Model::Ends further;
              for (const std::size_t middle : reached) further.merge(left.ends(chars, middle));
              reached = std::move(further);
              if (i >= min) all.insert(reached.begin(), reached.end());
            }
            return all;
          }};
}

std::size_t bytes_between(const Chars& chars, std::size_t begin, std::size_t end) {
  std::size_t bytes = 0;
  for (std::size_t i = begin; i < end; ++i) bytes += chars[i].size();
  return bytes;
}

struct Outcome {
  std::optional<StopMatch> match;
  std::size_t held = 0;
  bool operator==(const Outcome& other) const {
    if (match.has_value() != other.match.has_value()) return false;
    if (!match) return held == other.held;
    return match->begin == other.match->begin && match->end == other.match->end &&
           match->index == other.match->index;
  }
};

/// Whether a pattern matches a part of `chars` that begins at `begin` and ends behind `least`.
bool can_match(const std::vector<Model>& models, const Chars& chars, std::size_t begin,
               std::size_t least, std::size_t longest) {
  for (const Model& model : models) {
    for (const std::size_t end : model.ends(chars, begin)) {
      if (end > least && bytes_between(chars, begin, end) <= longest) return true;
    }
  }
  return false;
}

/// Whether any text behind `chars` makes a match of what begins at `begin`: all are tried.
bool can_become(const std::vector<Model>& models, Chars& chars, std::size_t begin,
                std::size_t least, std::size_t longest) {
  for (const char* next : {"a", "b", "\n", "x", "\u00E9"}) {
    chars.emplace_back(next);
    bool can = false;
    if (bytes_between(chars, begin, chars.size()) <= longest) {
      can = can_match(models, chars, begin, least, longest) ||
            can_become(models, chars, begin, least, longest);
    }
    chars.pop_back();
    if (can) return true;
  }
  return false;
}

Outcome plain_outcome(const std::vector<Model>& models, Chars chars, std::size_t longest) {
  for (std::size_t end = 1; end <= chars.size(); ++end) {
    const Chars head(chars.begin(), chars.begin() + static_cast<std::ptrdiff_t>(end));
    for (std::size_t begin = 0; begin < end; ++begin) {
      if (bytes_between(chars, begin, end) > longest) continue;
      for (std::size_t i = 0; i < models.size(); ++i) {
        if (!models[i].ends(head, begin).contains(end)) continue;
        return {StopMatch{i, bytes_between(chars, 0, begin), bytes_between(chars, 0, end)}, 0};
      }
    }
  }
  const std::size_t size = chars.size();
  for (std::size_t begin = 0; begin < size; ++begin) {
    const std::size_t held = bytes_between(chars, begin, size);
    if (held < longest && can_become(models, chars, begin, size, longest)) {
      return {std::nullopt, held};
    }
  }
  return {};
}

bool matches_empty(const Model& model) {
  return model.ends({}, 0).contains(0) || model.ends({"x"}, 1).contains(1);
}

}  // namespace

TEST_CASE("patterns match what regular expressions match") {
  CHECK(found({"\\d+"}, "abc 123") == "4..5 0");
  CHECK(found({"\\d{3}"}, "12 1234") == "3..6 0");
  CHECK(found({"a.*b"}, "xaa\nacb") == "4..7 0");
  CHECK(found({"colou?r"}, "my color") == "3..8 0");
  CHECK(found({"(cat|dog)s"}, "cat dogs") == "4..8 0");
  CHECK(found({"^\\s*Human:"}, "I am Human:\n  Human: x") == "12..20 0");
  CHECK(found({"^Human:"}, "Human: x") == "0..6 0");
  CHECK(found({"\\n^b"}, "a\nb") == "1..3 0");
  CHECK(found({"[^\\W\\d]{2}"}, "1a23_x") == "4..6 0");
  CHECK(found({"[]a-]x"}, "bx]x") == "2..4 0");
  CHECK(found({"[\\]\\-z]{2}"}, "x]-") == "1..3 0");
  CHECK(found({"\\x41\\u00E9\\u{1F600}"}, "A\u00E9\U0001F600") == "0..7 0");
  CHECK(found({"\u00E9.\u00E9"}, "\u00E9\U0001F600\u00E9") == "0..8 0");
  CHECK(found({"[\u00E0-\u00FF]+!"}, "x\u00E9\u00EA!") == "1..6 0");
  CHECK(found({"a.b"}, "a\nb") == "held 0");
  CHECK(found({"x{0}ab{2,}?"}, "abbb") == "0..3 0");
  CHECK(found({"(?:ab){2}"}, "aabab") == "1..5 0");
  CHECK(found({"(a|)(b*)*c"}, "bbbc") == "0..4 0");
}

TEST_CASE("of several patterns the one that ends first counts then the one that begins first") {
  CHECK(found({"abcX", "cd"}, "abcd") == "2..4 1");
  CHECK(found({"bc", "abc"}, "xabc") == "1..4 1");
  CHECK(found({"b+c", "[ab]+c", "abc"}, "xabc") == "1..4 1");
  CHECK(found({"ab+"}, "abbb") == "0..2 0");
}

TEST_CASE("patterns hold back what can still become a match") {
  CHECK(found({"\\n+Q\\d"}, "Hi\n\n") == "held 2");
  CHECK(found({"\\n+Q\\d"}, "Hi\n\nQ") == "held 3");
  CHECK(found({"\\n+Q\\d"}, "Hi\n\nQx") == "held 0");
  CHECK(found({"a\\d*^b|c"}, "xa") == "held 0");  // ^ can not hold behind "a"
}

TEST_CASE("a candidate of more than 1024 bytes is given up alone") {
  const std::string fill(1100, '-');
  CHECK(found({"<.*>"}, "<" + std::string(1022, '-') + ">") == "0..1024 0");
  CHECK(found({"<.*>"}, "<" + std::string(1023, '-') + ">") == "held 0");
  CHECK(found({"<.*>"}, "<" + std::string(1022, '-')) == "held 1023");
  CHECK(found({"<.*>"}, "<" + std::string(1023, '-')) == "held 0");
  // Those that began later go on.
  CHECK(found({"<.*>"}, "<" + std::string(999, '-') + "<" + std::string(100, '-')) == "held 101");
  CHECK(found({"<.*>"}, "<" + std::string(999, '-') + "<" + std::string(100, '-') + ">") ==
        "1000..1102 0");
  // What could only be complete when it is too long is not waited for.
  CHECK(found({"<.*-{1000}>"}, "<" + std::string(22, 'x')) == "held 23");
  CHECK(found({"<.*-{1000}>"}, "<" + std::string(23, 'x')) == "held 0");
}

TEST_CASE("patterns that can not be used are refused with a reason and a place") {
  const std::map<std::string, std::string> refusals = {
      {"", "is empty"},
      {"a*", "matches the empty text"},
      {"^", "matches the empty text"},
      {"(|a)", "matches the empty text"},
      {"(ab", "without its ) (at byte 3)"},
      {"ab)", "without its (;"},
      {"[ab", "[ without its ]"},
      {"[b-a]", "a range in [ ]"},
      {"[a-\\d]", "a range in [ ]"},
      {"[[:alpha:]]", "a named class"},
      {"*a", "repeats nothing"},
      {"a**", "repeats a repetition"},
      {"a{2,1}", "more than its most"},
      {"a{1001}", "more than 1000 times"},
      {"a{99999999999}", "more than 1000 times"},
      {"{a}", "repeats nothing"},
      {"a{b}", "begins no repetition"},
      {"a$", "has a $"},
      {"\\bx", "not supported"},
      {"(a)\\1", "not supported"},
      {"(?=a)b", "a kind of group"},
      {"(?i)b", "a kind of group"},
      {"a\\", "ends with a \\"},
      {"\\xG1", "hexadecimal"},
      {"\\u{110000}", "hexadecimal"},
      {"\\uD800", "hexadecimal"},
      {"a^b", "can never match"},
      {"a[^\\s\\S]", "can never match"},
      {"a{1000}b{25}", "more than 1024 bytes"},
      {"(a{1000}){1000}", "too large"},
      {"((((a{9}){9}){9}){9}){9}", "too large"},
      {"\xFF", "not valid UTF-8"},
      {std::string(40, '(') + "a" + std::string(40, ')'), "nested more than 30"},
      {std::string(1025, 'a'), "has 1025 bytes"},
  };
  for (const auto& [pattern, reason] : refusals) {
    INFO(pattern);
    CHECK(refusal(pattern).find(reason) != std::string::npos);
    CHECK(refusal(pattern).starts_with("Stop pattern 1 "));
  }
  CHECK(refusal("(()){1000}(){1000}a").empty());
  CHECK_THROWS_AS(check_stop_patterns(std::vector<StopPattern>(65, StopPattern{"a"})), Error);
}

TEST_CASE("random patterns agree with a plain search of all parts of the text") {
  RandomText random(31);
  int matched = 0;
  int held = 0;
  for (int round = 0; round < 6000; ++round) {
    std::vector<Model> models;
    std::vector<StopPattern> patterns;
    for (std::size_t i = 1 + random.below(3); i > 0; --i) {
      Model model = random_model(random, 3);
      if (matches_empty(model)) continue;
      try {
        compile_stop_patterns(patterns_of({model.text}));
      } catch (const Error& error) {
        REQUIRE(std::string(error.what()).find("can never match") != std::string::npos);
        Chars none;
        REQUIRE_FALSE(can_become({model}, none, 0, 0, 4));
        continue;
      }
      patterns.push_back({model.text});
      models.push_back(std::move(model));
    }
    const std::size_t longest = 2 + random.below(4);
    Chars chars;
    std::string text;
    for (std::size_t i = 1 + random.below(8); i > 0; --i) {
      static const std::vector<std::string> all = {"a", "a", "b", "\n", "x", "\u00E9"};
      chars.push_back(all[random.below(all.size())]);
    }
    std::string names;
    for (const StopPattern& pattern : patterns) names += pattern.pattern + "   ";
    PatternMatcher matcher(patterns, longest);
    for (std::size_t count = 1; count <= chars.size(); ++count) {
      text += chars[count - 1];
      const Chars head(chars.begin(), chars.begin() + static_cast<std::ptrdiff_t>(count));
      Outcome outcome{matcher.feed(chars[count - 1]), 0};
      outcome.held = text.size() - matcher.safe_end();
      const Outcome expected = plain_outcome(models, head, longest);
      INFO(names << "| " << text << " longest " << longest << " held " << outcome.held << " not "
                 << expected.held);
      REQUIRE(outcome == expected);
      if (outcome.match) {
        ++matched;
        break;
      }
      held += outcome.held > 0 ? 1 : 0;
    }
  }
  CHECK(matched > 1000);
  CHECK(held > 1000);
}

TEST_CASE("how the text is split over calls makes no difference to patterns") {
  RandomText random(8);
  for (int round = 0; round < 2000; ++round) {
    const Model model = random_model(random, 3);
    std::vector<StopPattern> patterns = patterns_of({model.text, "\u00E9+a"});
    if (!refusal(model.text).empty()) patterns.erase(patterns.begin());
    std::vector<std::string> chars;
    std::string text;
    for (int i = 0; i < 30; ++i) text += chars.emplace_back(random.code_point());
    PatternMatcher whole(patterns);
    const auto expected = whole.feed(text);
    PatternMatcher split(patterns);
    std::optional<StopMatch> match;
    for (std::size_t i = 0; i < chars.size() && !match;) {
      std::string piece;
      for (std::size_t n = 1 + random.below(5); n > 0 && i < chars.size(); --n) piece += chars[i++];
      match = split.feed(piece);
    }
    INFO(model.text);
    REQUIRE(match.has_value() == expected.has_value());
    if (match) REQUIRE(match->begin == expected->begin);
    if (match) REQUIRE(match->end == expected->end);
    if (!match) REQUIRE(split.safe_end() == whole.safe_end());
  }
}

TEST_CASE("patterns that make others go back for ever take time in proportion to the text") {
  // A search that goes back would not end in a lifetime.
  const std::string text(1500, 'a');
  for (const auto& [pattern, held] : std::map<std::string, std::size_t>{{"(a*)*b", 1023},
                                                                        {"(a|aa)+b", 1023},
                                                                        {"(.*)(.*)(.*)(.*)b", 1023},
                                                                        {"((a?){30}){30}b", 900}}) {
    PatternMatcher matcher(patterns_of({pattern}));
    CHECK_FALSE(matcher.feed(text));
    CHECK(text.size() - matcher.safe_end() == held);
  }
}

TEST_CASE("skipped text is no part of a pattern but ends a line") {
  PatternMatcher matcher(patterns_of({"^ab", "\\nx"}));
  matcher.skip("a");
  CHECK_FALSE(matcher.feed("b"));
  matcher.skip("a\n");
  CHECK_FALSE(matcher.feed("x\n"));
  CHECK(matcher.safe_end() == 5);
  CHECK(matcher.feed("ab")->begin == 6);
  matcher.restart(100);
  CHECK(matcher.feed("ab")->begin == 100);
}
