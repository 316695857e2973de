#include "engine/tokenizer/pre_tokenizer.hpp"

#include <utility>

#include "engine/tokenizer/utf8.hpp"

namespace sluice {
namespace {

void cut(const Regex& pattern, std::string_view text, Regex::Scratch& scratch,
         std::vector<std::string_view>& pieces) {
  std::size_t covered = 0;
  std::size_t from = 0;
  while (from < text.size()) {
    const auto match = pattern.find(text, from, scratch);
    if (!match) break;
    if (match->begin > covered) pieces.push_back(text.substr(covered, match->begin - covered));
    if (match->end > match->begin) {
      pieces.push_back(text.substr(match->begin, match->end - match->begin));
      from = match->end;
    } else if (match->begin < text.size()) {
      // An empty match only marks a cut; go on behind the next code point.
      from = match->begin + utf8_length(text, match->begin);
    } else {
      from = text.size();
    }
    covered = match->end;
  }
  if (covered < text.size()) pieces.push_back(text.substr(covered));
}

}  // namespace

PreTokenizer::PreTokenizer(std::span<const std::string_view> patterns) {
  patterns_.reserve(patterns.size());
  for (const std::string_view pattern : patterns) patterns_.emplace_back(pattern);
}

void PreTokenizer::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  Regex::Scratch scratch;
  std::vector<std::string_view> before;
  std::vector<std::string_view> after;
  while (!text.empty()) {
    const std::size_t length = well_formed_prefix(text);
    if (length == 0) {
      pieces.push_back(text.substr(0, 1));
      text.remove_prefix(1);
      continue;
    }
    before.assign(1, text.substr(0, length));
    text.remove_prefix(length);
    for (const Regex& pattern : patterns_) {
      after.clear();
      for (const std::string_view piece : before) cut(pattern, piece, scratch, after);
      std::swap(before, after);
    }
    pieces.insert(pieces.end(), before.begin(), before.end());
  }
}

}  // namespace sluice
