#include "engine/tokenizer/normalizer_steps.hpp"

#include <algorithm>
#include <utility>

#include "engine/tokenizer/byte_alphabet.hpp"
#include "engine/tokenizer/char_map.hpp"
#include "engine/tokenizer/nfc.hpp"
#include "engine/tokenizer/utf8.hpp"
#include "engine/tokenizer/white_space.hpp"

namespace sluice {
namespace {

class UnicodeFormStep final : public NormalizerStep {
 public:
  explicit UnicodeFormStep(UnicodeForm form) : form_(form) {}
  std::string apply(std::string_view text) const override {
    if (form_ == UnicodeForm::kC && !may_need_nfc(text)) return std::string(text);
    return normalize_unicode(text, form_);
  }

 private:
  UnicodeForm form_;
};

class LowercaseStep final : public NormalizerStep {
 public:
  std::string apply(std::string_view text) const override { return lower_case(text); }
};

class StripStep final : public NormalizerStep {
 public:
  StripStep(bool left, bool right) : left_(left), right_(right) {}
  std::string apply(std::string_view text) const override {
    if (left_) text.remove_prefix(leading_white_space(text));
    if (right_) text.remove_suffix(trailing_white_space(text));
    return std::string(text);
  }

 private:
  bool left_;
  bool right_;
};

class ReplaceTextStep final : public NormalizerStep {
 public:
  ReplaceTextStep(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  std::string apply(std::string_view text) const override {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
      const std::size_t at = std::min(text.find(from_), text.size());
      out += text.substr(0, at);
      if (at == text.size()) break;
      out += to_;
      text.remove_prefix(at + from_.size());
    }
    return out;
  }

 private:
  std::string from_;
  std::string to_;
};

class ReplaceMatchStep final : public NormalizerStep {
 public:
  ReplaceMatchStep(Regex from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}

  std::string apply(std::string_view text) const override {
    std::string out;
    Regex::Scratch scratch;
    while (!text.empty()) {
      const std::size_t length = well_formed_prefix(text);
      append_replaced(text.substr(0, length), scratch, out);
      text.remove_prefix(length);
      if (text.empty()) break;
      out += text.front();
      text.remove_prefix(1);
    }
    return out;
  }

 private:
  void append_replaced(std::string_view text, Regex::Scratch& scratch, std::string& out) const {
    std::size_t copied = 0;
    for (std::size_t from = 0; from <= text.size();) {
      const auto match = from_.find(text, from, scratch);
      if (!match) break;
      out += text.substr(copied, match->begin - copied);
      out += to_;
      copied = match->end;
      from = match->end;
      if (match->end == match->begin) {
        // Nothing was matched here; go on behind the next code point.
        from += match->end < text.size() ? utf8_length(text, match->end) : 1;
      }
    }
    out += text.substr(copied);
  }

  Regex from_;
  std::string to_;
};

class PrependStep final : public NormalizerStep {
 public:
  explicit PrependStep(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string apply(std::string_view text) const override {
    return text.empty() ? std::string() : prefix_ + std::string(text);
  }

 private:
  std::string prefix_;
};

class ByteAlphabetStep final : public NormalizerStep {
 public:
  std::string apply(std::string_view text) const override { return alphabet_from_bytes(text); }
};

/// As the library of tokenizer.json applies the table: a short grapheme cluster is looked up
/// whole, then code point by code point, and the shortest entry counts.
class CharMapStep final : public NormalizerStep {
 public:
  explicit CharMapStep(std::string_view bytes) : map_(bytes), cluster_(R"(\X)") {}

  std::string apply(std::string_view text) const override {
    std::string out;
    Regex::Scratch scratch;
    while (!text.empty()) {
      const std::size_t length = well_formed_prefix(text);
      const std::string_view sound = text.substr(0, length);
      for (std::size_t at = 0; at < sound.size();) {
        const auto match = cluster_.find(sound, at, scratch);
        const std::size_t end = match && match->end > at ? match->end : sound.size();
        append_cluster(sound.substr(at, end - at), out);
        at = end;
      }
      text.remove_prefix(length);
      if (text.empty()) break;
      out += text.front();
      text.remove_prefix(1);
    }
    return out;
  }

 private:
  static constexpr std::size_t kLongestWholeCluster = 5;  // bytes

  void append_cluster(std::string_view cluster, std::string& out) const {
    if (cluster.size() <= kLongestWholeCluster) {
      const CharMap::Match whole = map_.shortest(cluster);
      if (whole.size > 0) {
        out += whole.replacement;
        return;
      }
    }
    while (!cluster.empty()) {
      const std::size_t length = std::max<std::size_t>(1, utf8_length(cluster, 0));
      const CharMap::Match match = map_.shortest(cluster.substr(0, length));
      out += match.size > 0 ? match.replacement : cluster.substr(0, length);
      cluster.remove_prefix(length);
    }
  }

  CharMap map_;
  Regex cluster_;
};

}  // namespace

NormalizerStepPtr make_unicode_form_step(UnicodeForm form) {
  return std::make_unique<UnicodeFormStep>(form);
}
NormalizerStepPtr make_lowercase_step() {
  return std::make_unique<LowercaseStep>();
}
NormalizerStepPtr make_strip_step(bool left, bool right) {
  return std::make_unique<StripStep>(left, right);
}
NormalizerStepPtr make_replace_step(std::string from, std::string to) {
  return std::make_unique<ReplaceTextStep>(std::move(from), std::move(to));
}
NormalizerStepPtr make_replace_step(Regex from, std::string to) {
  return std::make_unique<ReplaceMatchStep>(std::move(from), std::move(to));
}
NormalizerStepPtr make_prepend_step(std::string prefix) {
  return std::make_unique<PrependStep>(std::move(prefix));
}
NormalizerStepPtr make_byte_alphabet_step() {
  return std::make_unique<ByteAlphabetStep>();
}
NormalizerStepPtr make_char_map_step(std::string_view char_map) {
  return std::make_unique<CharMapStep>(char_map);
}

}  // namespace sluice
