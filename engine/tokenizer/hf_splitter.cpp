#include "engine/tokenizer/hf_splitter.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "engine/formats/quote_text.hpp"
#include "engine/tokenizer/hf_normalizer.hpp"
#include "engine/tokenizer/pre_tokenizer.hpp"
#include "engine/tokenizer/regex_dialect.hpp"
#include "engine/tokenizer/space_mark.hpp"

namespace sluice {
namespace {

using simdjson::dom::element;

constexpr int kDeepest = 16;  // sequences in sequences

// Punctuation of Unicode, and what ASCII counts as such besides.
constexpr const char* kPunctuation = R"([\p{P}$+<=>^`|~])";

}  // namespace

class HfSplitter::Reader {
 public:
  Reader(const JsonFile& file, HfSplitter& splitter, bool raw_bytes)
      : file_(file), splitter_(splitter), raw_bytes_(raw_bytes) {}

  void read() {
    const auto root = member(file_.root(), "pre_tokenizer");
    if (!root) return;
    read_step(*root, 0);
    if (byte_alphabet_waits_ && !raw_bytes_) write_byte_alphabet();
  }

 private:
  void read_step(element step, int depth) {
    const std::string_view type = file_.text(step, "type");
    if (type == "Sequence") {
      if (depth >= kDeepest) file_.corrupt("its pre-tokenizers are nested too deep");
      for (const element inner : file_.array(step, "pretokenizers")) read_step(inner, depth + 1);
      return;
    }
    // Whatever stands behind a ByteLevel step sees its stand-ins.
    if (byte_alphabet_waits_) write_byte_alphabet();
    if (type == "ByteLevel") {
      read_byte_level(step);
    } else if (type == "Split") {
      add(make_split_step(read_hf_pattern(file_, step), behavior_of(step, "Isolated"),
                          flag_member(step, "invert", false)));
    } else if (type == "Digits") {
      const bool single = flag_member(step, "individual_digits", false);
      split(R"(\p{N})", single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
    } else if (type == "Punctuation") {
      split(kPunctuation, behavior_of(step, "Isolated"));
    } else if (type == "Whitespace") {
      split(fmt::format("[{0}]+|[^{0}\\s]+", kWordOfSteps), SplitBehavior::kRemoved, true);
    } else if (type == "WhitespaceSplit") {
      split(R"(\s)", SplitBehavior::kRemoved);
    } else if (type == "BertPreTokenizer") {
      split(R"(\s)", SplitBehavior::kRemoved);
      split(kPunctuation, SplitBehavior::kIsolated);
    } else if (type == "CharDelimiterSplit") {
      read_delimiter(step);
    } else if (type == "Metaspace") {
      read_metaspace(step);
    } else {
      file_.unsupported(fmt::format("the pre-tokenizer {}", quote_text(type)));
    }
  }

  void add(SplitterStepPtr step) { splitter_.steps_.push_back(std::move(step)); }

  void split(std::string_view pattern, SplitBehavior behavior, bool invert = false) {
    add(make_split_step(Regex(pattern, RegexDialect::kOniguruma), behavior, invert));
  }

  SplitBehavior behavior_of(element step, std::string_view otherwise) const {
    const std::string_view name = text_member(step, "behavior").value_or(otherwise);
    if (name == "Isolated") return SplitBehavior::kIsolated;
    if (name == "Removed") return SplitBehavior::kRemoved;
    if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
    if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
    if (name == "Contiguous") return SplitBehavior::kContiguous;
    file_.unsupported(fmt::format("a split with the behavior {}", quote_text(name)));
  }

  void read_byte_level(element step) {
    if (flag_member(step, "add_prefix_space", true)) add(make_leading_space_step());
    if (flag_member(step, "use_regex", true)) {
      for (const std::string_view pattern : find_pre_tokenizer("gpt-2")->patterns) {
        split(pattern, SplitBehavior::kIsolated);
      }
    }
    splitter_.has_byte_level_ = true;
    byte_alphabet_waits_ = true;
  }

  void write_byte_alphabet() {
    add(make_byte_alphabet_pieces_step());
    splitter_.gives_stand_ins_ = true;
    byte_alphabet_waits_ = false;
  }

  void read_delimiter(element step) {
    const std::string_view delimiter = file_.text(step, "delimiter");
    std::string pattern;
    for (const char c : delimiter) {
      pattern += static_cast<unsigned char>(c) < 0x80
                     ? fmt::format("\\x{{{:x}}}", static_cast<unsigned>(c))
                     : std::string(1, c);
    }
    if (pattern.empty()) file_.corrupt("a \"delimiter\" is empty");
    split(pattern, SplitBehavior::kRemoved);
  }

  void read_metaspace(element step) {
    const std::string mark(text_member(step, "replacement").value_or(kSpaceMark));
    if (mark.empty()) file_.corrupt("a \"replacement\" is empty");
    add(make_space_mark_step(mark, read_mark_prefix(step), flag_member(step, "split", true)));
  }

  MarkPrefix read_mark_prefix(element step) const {
    const auto scheme = text_member(step, "prepend_scheme");
    if (!scheme) {
      // Older files have a flag.
      return flag_member(step, "add_prefix_space", true) ? MarkPrefix::kAlways : MarkPrefix::kNever;
    }
    if (*scheme == "always") return MarkPrefix::kAlways;
    if (*scheme == "first") return MarkPrefix::kFirst;
    if (*scheme == "never") return MarkPrefix::kNever;
    file_.unsupported(fmt::format("the prepend scheme {}", quote_text(*scheme)));
  }

  const JsonFile& file_;
  HfSplitter& splitter_;
  bool raw_bytes_;
  bool byte_alphabet_waits_ = false;
};

HfSplitter::HfSplitter(const JsonFile& file, bool raw_bytes) {
  Reader(file, *this, raw_bytes).read();
}

Pieces HfSplitter::split(std::string_view text, bool begins_the_text) const {
  Pieces pieces;
  pieces.begins_the_text = begins_the_text;
  if (!text.empty()) pieces.list.push_back(text);
  for (const SplitterStepPtr& step : steps_) step->apply(pieces);
  return pieces;
}

}  // namespace sluice
