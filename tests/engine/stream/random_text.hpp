// Random byte strings and stop strings in which partial matches, boundaries and broken code
// points are frequent. The same cases in every run.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "engine/stream/request.hpp"

namespace sluice::test {

class RandomText {
 public:
  explicit RandomText(std::uint64_t seed) : engine_(seed) {}

  /// Uniform in [0, limit).
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(engine_() % limit); }
  bool chance(std::size_t one_in) { return below(one_in) == 0; }

  /// From now on only two letters and the line feed: words that overlap in every way.
  void set_narrow(bool narrow) { narrow_ = narrow; }

  /// A few letters, white space of several lengths, code points that share lead bytes.
  const std::string& code_point() {
    static const std::vector<std::string> few = {"a", "b", "a", "b", "\n"};
    if (narrow_) return few[below(few.size())];
    static const std::vector<std::string> all = {
        "a",      "a",      "a",      "b",      "b",      "\n",         "\n",         " ",
        "\u00E9", "\u00EA", "\u3000", "\u00A0", "\u2028", "\U0001F600", "\U0001F601", "\uFFFD"};
    return all[below(all.size())];
  }

  std::string text(std::size_t code_points) {
    std::string out;
    for (std::size_t i = 0; i < code_points; ++i) out += code_point();
    return out;
  }

  /// Mostly valid; now and then a byte that is wrong or ends a code point early.
  std::string bytes(std::size_t code_points) {
    static const std::string wrong = "\xFF\xC3\xE2\x80\xF0\x9F\xED\xA0\xC0\x98";
    std::string out;
    for (std::size_t i = 0; i < code_points; ++i) {
      if (chance(8)) {
        out += wrong[below(wrong.size())];
      } else {
        out += code_point();
      }
    }
    return out;
  }

  std::vector<StopString> stop_strings(std::size_t most, bool scopes) {
    std::vector<StopString> strings(below((narrow_ ? 2 : 1) * most + 1));
    for (StopString& string : strings) {
      string.text = narrow_ ? text(2 + below(5)) : text(1 + below(chance(3) ? 6 : 3));
      string.boundary = static_cast<StopBoundary>(below(3));
      if (scopes) string.scope = static_cast<StopScope>(below(3));
      string.include = chance(4);
    }
    // One a part of another is what overlaps are made of.
    if (strings.size() >= 2 && !narrow_ && chance(2)) strings[1].text += strings[0].text;
    return strings;
  }

  /// Cuts `bytes` into tokens of 0 to `longest` bytes.
  std::vector<std::string> split(const std::string& bytes, std::size_t longest) {
    std::vector<std::string> tokens;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t size = chance(12) ? 0 : 1 + below(longest);
      tokens.push_back(bytes.substr(at, size));
      at += size;
    }
    return tokens;
  }

 private:
  std::mt19937_64 engine_;
  bool narrow_ = false;
};

}  // namespace sluice::test
