#include "engine/tokenizer/regex_dialect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace sluice {
namespace {

// As the inside of a bracket expression.
constexpr std::string_view kWhiteSpace = R"(\p{Z}\t-\r\x{85})";  // Unicode's White_Space
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{N}\p{Pc})";   // as Oniguruma has it
constexpr std::string_view kHexadecimal = "0-9a-fA-F";

/// Brackets inside brackets; deeper is no pattern that anybody trained with.
constexpr int kDeepest = 8;

class Translator {
 public:
  Translator(std::string_view pattern, bool oniguruma) : pattern_(pattern), oniguruma_(oniguruma) {}

  std::string run() {
    std::string out;
    while (at_ < pattern_.size()) {
      if (pattern_[at_] == '\\') {
        out += escape_outside();
      } else if (pattern_[at_] == '[') {
        out += read_set(0).text();
      } else {
        out += pattern_[at_++];
      }
    }
    return out;
  }

 private:
  /// One bracket expression.
  struct Set {
    bool negated = false;
    bool closed = true;               ///< its closing bracket is there
    std::string inside;               ///< plain members
    std::vector<std::string> others;  ///< further members that are sets by themselves
    std::vector<std::string> limits;  ///< sets that the code point must be in as well

    std::string text() const {
      if (!closed) return "[";  // the compiler will say so
      std::string joined = "[" + inside + "]";
      if (!others.empty()) {
        joined = inside.empty() ? others.front() : joined + "|" + others.front();
        for (std::size_t i = 1; i < others.size(); ++i) joined += "|" + others[i];
        joined = "(?:" + joined + ")";
      }
      for (const std::string& limit : limits) joined = fmt::format("(?={}){}", limit, joined);
      const bool plain = others.empty() && limits.empty();
      if (!negated) return plain ? joined : "(?:" + joined + ")";
      return plain ? "[^" + inside + "]" : fmt::format("(?:(?!{})(?s:.))", joined);
    }
  };

  bool rest_starts_with(std::string_view text) const {
    return pattern_.substr(at_).starts_with(text);
  }

  /// The two characters of an escape; a backslash at the end alone.
  std::string_view take_escape() {
    const std::string_view escape = pattern_.substr(at_, 2);
    at_ += escape.size();
    return escape;
  }

  std::string escape_outside() {
    const std::string_view escape = take_escape();
    if (escape == "\\s") return fmt::format("[{}]", kWhiteSpace);
    if (escape == "\\S") return fmt::format("[^{}]", kWhiteSpace);
    if (escape == "\\w") return fmt::format("[{}]", kWord);
    if (escape == "\\W") return fmt::format("[^{}]", kWord);
    if (oniguruma_ && escape == "\\h") return fmt::format("[{}]", kHexadecimal);
    if (oniguruma_ && escape == "\\H") return fmt::format("[^{}]", kHexadecimal);
    return std::string(escape);
  }

  std::string escape_inside() {
    const std::string_view escape = take_escape();
    if (escape == "\\s") return std::string(kWhiteSpace);
    if (escape == "\\w") return std::string(kWord);
    if (oniguruma_ && escape == "\\h") return std::string(kHexadecimal);
    return std::string(escape);
  }

  Set read_set(int depth) {
    Set set;
    ++at_;  // the opening bracket
    if (rest_starts_with("^")) {
      set.negated = true;
      ++at_;
    }
    if (rest_starts_with("]")) {  // a first one is a member
      set.inside += "\\]";
      ++at_;
    }
    while (at_ < pattern_.size() && pattern_[at_] != ']') read_member(set, depth);
    set.closed = at_ < pattern_.size();
    ++at_;
    return set;
  }

  void read_member(Set& set, int depth) {
    if (pattern_[at_] == '\\') {
      set.inside += escape_inside();
    } else if (rest_starts_with("[:")) {
      const std::size_t end = std::min(pattern_.find(":]", at_), pattern_.size() - 2) + 2;
      set.inside += pattern_.substr(at_, end - at_);
      at_ = end;
    } else if (oniguruma_ && pattern_[at_] == '[' && depth < kDeepest) {
      const Set inner = read_set(depth + 1);
      if (!inner.negated && inner.others.empty() && inner.limits.empty()) {
        set.inside += inner.inside;
      } else {
        set.others.push_back(inner.text());
      }
    } else if (oniguruma_ && rest_starts_with("&&") && depth < kDeepest) {
      at_ += 2;
      set.limits.push_back(read_limit(depth + 1));
    } else if (pattern_[at_] == '[') {
      set.inside += "\\[";
      ++at_;
    } else {
      set.inside += pattern_[at_++];
    }
  }

  /// What stands right of an && up to the end of its brackets, or the next &&.
  std::string read_limit(int depth) {
    Set set;
    while (at_ < pattern_.size() && pattern_[at_] != ']' && !rest_starts_with("&&")) {
      read_member(set, depth);
    }
    return set.text();
  }

  std::string_view pattern_;
  bool oniguruma_;
  std::size_t at_ = 0;
};

}  // namespace

std::string translate_pattern(std::string_view pattern, bool oniguruma) {
  return Translator(pattern, oniguruma).run();
}

}  // namespace sluice
