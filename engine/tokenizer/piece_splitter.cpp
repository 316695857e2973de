#include "engine/tokenizer/piece_splitter.hpp"

#include <algorithm>
#include <utility>

#include "engine/tokenizer/byte_alphabet.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace sluice {
namespace {

/// A part of a piece, and whether the pattern matched it.
struct Part {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool matched = false;
};

/// Joins parts as the behavior asks for; matches and others alternate or stand side by side.
void join(std::vector<Part>& parts, SplitBehavior behavior) {
  std::size_t kept = 0;
  const auto keep = [&](Part part, bool into_last) {
    if (into_last && kept > 0) {
      parts[kept - 1].end = part.end;
    } else {
      parts[kept++] = part;
    }
  };
  bool previous_matched = false;
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return;
    case SplitBehavior::kRemoved:
      std::erase_if(parts, [](const Part& part) { return part.matched; });
      return;
    case SplitBehavior::kMergedWithPrevious:
      for (const Part part : parts) {
        keep(part, part.matched && !previous_matched);
        previous_matched = part.matched;
      }
      break;
    case SplitBehavior::kContiguous:
      for (const Part part : parts) {
        keep(part, part.matched == previous_matched);
        previous_matched = part.matched;
      }
      break;
    case SplitBehavior::kMergedWithNext:
      // The mirror image of kMergedWithPrevious.
      std::reverse(parts.begin(), parts.end());
      for (const Part part : parts) {
        if (part.matched && !previous_matched && kept > 0) {
          parts[kept - 1].begin = part.begin;
        } else {
          parts[kept++] = part;
        }
        previous_matched = part.matched;
      }
      std::reverse(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(kept));
      break;
  }
  parts.resize(kept);
}

class SplitStep final : public SplitterStep {
 public:
  SplitStep(Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void apply(Pieces& pieces) const override {
    Regex::Scratch scratch;
    std::vector<Part> parts;
    std::vector<std::string_view> result;
    const char* const start = pieces.list.empty() ? nullptr : pieces.list.front().data();
    for (const std::string_view piece : pieces.list) {
      find_parts(piece, scratch, parts);
      join(parts, behavior_);
      for (const Part& part : parts) {
        if (part.begin != part.end) {
          result.push_back(piece.substr(part.begin, part.end - part.begin));
        }
      }
    }
    pieces.list = std::move(result);
    if (pieces.list.empty() || pieces.list.front().data() != start) pieces.begins_the_text = false;
  }

 private:
  void find_parts(std::string_view text, Regex::Scratch& scratch, std::vector<Part>& parts) const {
    parts.clear();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = well_formed_prefix(text.substr(at));
      find_in(text.substr(at, length), at, scratch, parts);
      at += length;
      if (at == text.size()) break;
      parts.push_back({at, at + 1, invert_});  // a byte that is not UTF-8
      ++at;
    }
  }

  void find_in(std::string_view text, std::size_t offset, Regex::Scratch& scratch,
               std::vector<Part>& parts) const {
    std::size_t covered = 0;
    for (std::size_t from = 0; from < text.size();) {
      const auto match = pattern_.find(text, from, scratch);
      if (!match) break;
      if (match->begin > covered)
        parts.push_back({offset + covered, offset + match->begin, invert_});
      parts.push_back({offset + match->begin, offset + match->end, !invert_});
      covered = match->end;
      from = match->end;
      // An empty match only marks a cut; go on behind the next code point.
      if (match->end == match->begin && from < text.size()) from += utf8_length(text, from);
    }
    if (covered < text.size()) parts.push_back({offset + covered, offset + text.size(), invert_});
  }

  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class LeadingSpaceStep final : public SplitterStep {
 public:
  void apply(Pieces& pieces) const override {
    for (std::string_view& piece : pieces.list) {
      if (piece.starts_with(' ')) continue;
      pieces.texts.push_back(" " + std::string(piece));
      piece = pieces.texts.back();
    }
  }
};

class ByteAlphabetPiecesStep final : public SplitterStep {
 public:
  void apply(Pieces& pieces) const override {
    for (std::string_view& piece : pieces.list) {
      pieces.texts.push_back(alphabet_from_bytes(piece));
      piece = pieces.texts.back();
    }
  }
};

class SpaceMarkStep final : public SplitterStep {
 public:
  SpaceMarkStep(std::string mark, MarkPrefix prefix, bool cut)
      : mark_(std::move(mark)), prefix_(prefix), cut_(cut) {}

  void apply(Pieces& pieces) const override {
    std::vector<std::string_view> result;
    bool is_first = pieces.begins_the_text;
    for (const std::string_view piece : pieces.list) {
      pieces.texts.push_back(rewrite(piece, std::exchange(is_first, false)));
      append_cut(pieces.texts.back(), result);
    }
    pieces.list = std::move(result);
  }

 private:
  std::string rewrite(std::string_view piece, bool is_first) const {
    std::string text;
    text.reserve(piece.size() + piece.size() / 4 + mark_.size());
    const bool may_begin =
        prefix_ == MarkPrefix::kAlways || (prefix_ == MarkPrefix::kFirst && is_first);
    const bool has_one = piece.starts_with(' ') || piece.starts_with(mark_);
    if (may_begin && !has_one) text += mark_;
    for (const char c : piece) {
      if (c == ' ') {
        text += mark_;
      } else {
        text += c;
      }
    }
    return text;
  }

  void append_cut(std::string_view text, std::vector<std::string_view>& out) const {
    while (cut_) {
      const std::size_t next = text.find(mark_, 1);
      if (next == std::string_view::npos) break;
      out.push_back(text.substr(0, next));
      text.remove_prefix(next);
    }
    if (!text.empty()) out.push_back(text);
  }

  std::string mark_;
  MarkPrefix prefix_;
  bool cut_;
};

}  // namespace

SplitterStepPtr make_split_step(Regex pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<SplitStep>(std::move(pattern), behavior, invert);
}
SplitterStepPtr make_leading_space_step() {
  return std::make_unique<LeadingSpaceStep>();
}
SplitterStepPtr make_byte_alphabet_pieces_step() {
  return std::make_unique<ByteAlphabetPiecesStep>();
}
SplitterStepPtr make_space_mark_step(std::string mark, MarkPrefix prefix, bool cut) {
  return std::make_unique<SpaceMarkStep>(std::move(mark), prefix, cut);
}

}  // namespace sluice
