#include "engine/tokenizer/hf_normalizer.hpp"

#include <fmt/format.h>

#include <string>

#include "engine/formats/quote_text.hpp"
#include "engine/tokenizer/base64.hpp"
#include "engine/tokenizer/normalizer_steps.hpp"

namespace sluice {
namespace {

using simdjson::dom::element;

constexpr int kDeepest = 16;  // sequences in sequences

// The code points that BERT surrounds with spaces. Source: the CJK blocks of its tokenizer.
constexpr const char* kBertIdeograph =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F})"
    R"(\x{2B740}-\x{2B81F}\x{2B920}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}])";

class NormalizerReader {
 public:
  explicit NormalizerReader(const JsonFile& file) : file_(file) {}

  Normalizer read() {
    if (const auto root = member(file_.root(), "normalizer")) read_step(*root, 0);
    return std::move(normalizer_);
  }

 private:
  void read_step(element step, int depth) {
    const std::string_view type = file_.text(step, "type");
    if (type == "Sequence") {
      if (depth >= kDeepest) file_.corrupt("its normalizers are nested too deep");
      for (const element inner : file_.array(step, "normalizers")) read_step(inner, depth + 1);
    } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
      normalizer_.add(make_unicode_form_step(form_of(type)));
    } else if (type == "Lowercase") {
      normalizer_.add(make_lowercase_step());
    } else if (type == "StripAccents") {
      remove(R"(\p{M})");
    } else if (type == "Strip") {
      normalizer_.add(make_strip_step(flag_member(step, "strip_left", true),
                                      flag_member(step, "strip_right", true)));
    } else if (type == "Replace") {
      read_replace(step);
    } else if (type == "Prepend") {
      normalizer_.add(make_prepend_step(read_short_text(step, "prepend")));
    } else if (type == "ByteLevel") {
      normalizer_.add(make_byte_alphabet_step());
    } else if (type == "Nmt") {
      read_nmt();
    } else if (type == "BertNormalizer") {
      read_bert(step);
    } else if (type == "Precompiled") {
      read_char_map(step);
    } else {
      file_.unsupported(fmt::format("the normalizer {}", quote_text(type)));
    }
  }

  /// What a step puts into text; a long one would only blow it up.
  std::string read_short_text(element step, std::string_view key) const {
    constexpr std::size_t kLongest = 64;
    const std::string_view text = file_.text(step, key);
    if (text.size() > kLongest) file_.corrupt(fmt::format("a \"{}\" is too long", key));
    return std::string(text);
  }

  static UnicodeForm form_of(std::string_view type) {
    if (type == "NFC") return UnicodeForm::kC;
    if (type == "NFD") return UnicodeForm::kD;
    return type == "NFKC" ? UnicodeForm::kKc : UnicodeForm::kKd;
  }

  void remove(const char* pattern) {
    normalizer_.add(make_replace_step(Regex(pattern, RegexDialect::kOniguruma), ""));
  }

  void replace(const char* pattern, std::string to) {
    normalizer_.add(make_replace_step(Regex(pattern, RegexDialect::kOniguruma), std::move(to)));
  }

  void read_replace(element step) {
    std::string content = read_short_text(step, "content");
    const auto pattern = member(step, "pattern");
    const auto fixed = pattern ? text_member(*pattern, "String") : std::nullopt;
    if (fixed && !fixed->empty()) {
      normalizer_.add(make_replace_step(std::string(*fixed), std::move(content)));
    } else {
      normalizer_.add(make_replace_step(read_hf_pattern(file_, step), std::move(content)));
    }
  }

  void read_nmt() {
    remove(R"([\x{1}-\x{8}\x{B}\x{E}-\x{1F}\x{7F}\x{8F}\x{9F}])");
    replace(R"([\x{9}\x{A}\x{C}\x{D}\x{1680}\x{200B}-\x{200F}\x{2028}\x{2029}\x{2581}\x{FEFF})"
            R"(\x{FFFD}])",
            " ");
  }

  void read_bert(element step) {
    const bool lowercase = flag_member(step, "lowercase", true);
    if (flag_member(step, "clean_text", true)) {
      remove(R"([\x{0}\x{FFFD}]|(?![\t\n\r])\p{C})");
      replace(R"(\s)", " ");
    }
    if (flag_member(step, "handle_chinese_chars", true)) {
      normalizer_.add(std::make_unique<SpacedStep>());
    }
    if (flag_member(step, "strip_accents", lowercase)) {
      normalizer_.add(make_unicode_form_step(UnicodeForm::kD));
      remove(R"(\p{Mn})");
    }
    if (lowercase) normalizer_.add(make_lowercase_step());
  }

  void read_char_map(element step) {
    const std::string_view text = file_.text(step, "precompiled_charsmap");
    if (text.empty()) return;
    const auto bytes = bytes_from_base64(text);
    if (!bytes) file_.corrupt("\"precompiled_charsmap\" is not base64");
    try {
      normalizer_.add(make_char_map_step(*bytes));
    } catch (const std::exception& fault) {
      file_.corrupt(fault.what());
    }
  }

  /// Puts a space on either side of every ideograph.
  class SpacedStep final : public NormalizerStep {
   public:
    std::string apply(std::string_view text) const override {
      return after_->apply(before_->apply(text));
    }

   private:
    // An empty match before and after each of them.
    NormalizerStepPtr before_ = make_replace_step(
        Regex(std::string("(?=") + kBertIdeograph + ")", RegexDialect::kOniguruma), " ");
    NormalizerStepPtr after_ = make_replace_step(
        Regex(std::string("(?<=") + kBertIdeograph + ")", RegexDialect::kOniguruma), " ");
  };

  const JsonFile& file_;
  Normalizer normalizer_;
};

/// A text as a pattern that matches it alone.
std::string quoted(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const bool is_word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                         (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80;
    if (is_word) {
      pattern += c;
    } else {
      pattern += fmt::format("\\x{{{:x}}}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return pattern;
}

}  // namespace

Normalizer read_hf_normalizer(const JsonFile& file) {
  return NormalizerReader(file).read();
}

Regex read_hf_pattern(const JsonFile& file, element step) {
  const auto pattern = member(step, "pattern");
  const auto fixed = pattern ? text_member(*pattern, "String") : std::nullopt;
  const auto expression = pattern ? text_member(*pattern, "Regex") : std::nullopt;
  if (!fixed && !expression) file.corrupt("a pattern is neither a \"String\" nor a \"Regex\"");
  try {
    return Regex(fixed ? quoted(*fixed) : std::string(*expression), RegexDialect::kOniguruma);
  } catch (const std::exception& fault) {
    file.corrupt(fault.what());
  }
}

}  // namespace sluice
