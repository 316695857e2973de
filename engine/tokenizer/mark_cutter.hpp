// Where text in front of a space can be cut without changing what merging makes of it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/space_mark.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace sluice {

/// BPE of the SentencePiece kind merges over the whole text, but in most vocabularies no token
/// has a space after another character. No merge then joins a space with what stands before it,
/// so the words can be merged one by one: merges in one word never depend on those in another.
/// Vocabularies differ, so it is told which merges there are, and cuts only where none joins.
/// `Mark` is what stands for a space in the text: kSpaceMark or " ".
class MarkCutter {
 public:
  explicit MarkCutter(std::string_view mark = kSpaceMark) : mark_(mark) {}

  /// There is a merge of these two texts.
  void never_cut_between(std::string_view left, std::string_view right) {
    if (!right.starts_with(mark_) || left.empty()) return;
    std::string before(last_code_point(left));
    if (std::find(joined_.begin(), joined_.end(), before) == joined_.end()) {
      joined_.push_back(std::move(before));
      if (joined_.size() > kMostJoined) never_cut();
    }
  }
  /// There is a token of this text, which merges of any parts may lead to.
  void never_cut_inside(std::string_view token) {
    for (std::size_t at = token.find(mark_, 1); at != std::string_view::npos;
         at = token.find(mark_, at + 1)) {
      never_cut_between(token.substr(0, at), token.substr(at));
    }
  }
  void never_cut() { cuts_ = false; }

  /// Bytes of the first part of `text`, which is not empty: up to a place where no merge joins.
  std::size_t first_part(std::string_view text) const {
    if (!cuts_) return text.size();
    for (std::size_t at = text.find(mark_, 1); at != std::string_view::npos;
         at = text.find(mark_, at + 1)) {
      if (!joins(last_code_point(text.substr(0, at)))) return at;
    }
    return text.size();
  }

 private:
  bool joins(std::string_view before) const {
    return std::find(joined_.begin(), joined_.end(), before) != joined_.end();
  }

  /// Of bytes that are not UTF-8, the last one.
  static std::string_view last_code_point(std::string_view text) {
    for (std::size_t size = 1; size <= std::min<std::size_t>(4, text.size()); ++size) {
      const std::string_view end = text.substr(text.size() - size);
      if (utf8_length(end, 0) == size) return end;
    }
    return text.substr(text.size() - 1);
  }

  /// With more there is little to cut, and looking it up would cost more than it saves.
  static constexpr std::size_t kMostJoined = 64;

  std::string mark_;
  std::vector<std::string> joined_;  ///< code points that stand before a mark in some token
  bool cuts_ = true;
};

}  // namespace sluice
