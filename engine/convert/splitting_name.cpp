#include "engine/convert/splitting_name.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include "engine/tokenizer/pre_tokenizer.hpp"

namespace sluice {
namespace {

using simdjson::dom::element;

void append_utf8(std::string& out, std::uint32_t c) {
  const auto byte = [&](std::uint32_t value) { out += static_cast<char>(value); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xC0 | c >> 6);
    byte(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    byte(0xE0 | c >> 12);
    byte(0x80 | (c >> 6 & 0x3F));
    byte(0x80 | (c & 0x3F));
  } else {
    byte(0xF0 | c >> 18);
    byte(0x80 | (c >> 12 & 0x3F));
    byte(0x80 | (c >> 6 & 0x3F));
    byte(0x80 | (c & 0x3F));
  }
}

/// \x{4E00} as the character itself, so that both ways of writing compare equal.
std::string with_characters(std::string_view pattern) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size();) {
    const std::size_t end = pattern.find('}', i);
    std::uint32_t code = 0;
    if (pattern.substr(i).starts_with("\\x{") && end != std::string_view::npos) {
      std::from_chars(pattern.data() + i + 3, pattern.data() + end, code, 16);
      append_utf8(out, code);
      i = end + 1;
    } else {
      out += pattern[i++];
    }
  }
  return out;
}

/// The regular expressions of one step and those inside it, in order.
void collect_patterns(element step, std::vector<std::string>& patterns) {
  const std::string_view type = text_member(step, "type").value_or("");
  if (type == "Split") {
    const auto pattern = member(step, "pattern");
    const auto regex = pattern ? text_member(*pattern, "Regex") : std::nullopt;
    if (regex) patterns.push_back(with_characters(*regex));
  } else if (type == "Digits") {
    patterns.emplace_back(flag_member(step, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
  } else if (type == "ByteLevel" && flag_member(step, "use_regex", true)) {
    const PreTokenizerRules* gpt2 = find_pre_tokenizer("gpt-2");
    if (gpt2 != nullptr) patterns.emplace_back(with_characters(gpt2->patterns.front()));
  }
  const auto steps = member(step, "pretokenizers");
  if (!steps || !steps->is_array()) return;
  for (const element inner : steps->get_array()) collect_patterns(inner, patterns);
}

bool has_patterns(const PreTokenizerRules& rules, const std::vector<std::string>& patterns) {
  return std::equal(rules.patterns.begin(), rules.patterns.end(), patterns.begin(), patterns.end(),
                    [](std::string_view rule, const std::string& pattern) {
                      return with_characters(rule) == pattern;
                    });
}

bool normalizes_nfc(element normalizer) {
  if (text_member(normalizer, "type") == "NFC") return true;
  const auto steps = member(normalizer, "normalizers");
  if (!steps || !steps->is_array()) return false;
  for (const element inner : steps->get_array()) {
    if (normalizes_nfc(inner)) return true;
  }
  return false;
}

/// What goes with the expressions.
struct Flags {
  bool ignore_merges = false;
  bool normalize_nfc = false;
};

Flags read_flags(const JsonFile& tokenizer_json) {
  Flags flags;
  const auto model = member(tokenizer_json.root(), "model");
  flags.ignore_merges = model && flag_member(*model, "ignore_merges", false);
  const auto normalizer = member(tokenizer_json.root(), "normalizer");
  flags.normalize_nfc = normalizer && normalizes_nfc(*normalizer);
  return flags;
}

}  // namespace

std::vector<std::string_view> splitting_names(const JsonFile& tokenizer_json) {
  std::vector<std::string> patterns;
  if (const auto step = member(tokenizer_json.root(), "pre_tokenizer")) {
    collect_patterns(*step, patterns);
  }
  const Flags flags = read_flags(tokenizer_json);
  std::vector<std::string_view> same;
  std::vector<std::string_view> alike;
  std::vector<std::string_view> others;
  for (const PreTokenizerRules& rules : all_pre_tokenizers()) {
    const bool same_flags =
        rules.ignore_merges == flags.ignore_merges && rules.normalize_nfc == flags.normalize_nfc;
    const bool same_patterns = has_patterns(rules, patterns);
    (!same_patterns ? others : same_flags ? same : alike).push_back(rules.names.front());
  }
  same.insert(same.end(), alike.begin(), alike.end());
  same.insert(same.end(), others.begin(), others.end());
  return same;
}

}  // namespace sluice
