#include "engine/convert/same_tokens.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

/// Metadata alone, as a source of a tokenizer.
class MetadataSource final : public ModelSource {
 public:
  explicit MetadataSource(const MetadataMap& keys) : keys_(keys) {}
  const std::filesystem::path& path() const override { return path_; }
  std::string format() const override { return "metadata"; }
  const MetadataMap& metadata() const override { return keys_; }
  const std::vector<TensorView>& tensors() const override { return tensors_; }
  const TensorView* find_tensor(std::string_view) const override { return nullptr; }

 private:
  const MetadataMap& keys_;
  std::filesystem::path path_ = "the converted tokenizer";
  std::vector<TensorView> tensors_;
};

/// Each line is where some rule differs from some other: digits in threes or alone, spaces before
/// line ends, contractions in capitals, marks after letters, letters of scripts without case.
constexpr std::string_view kTexts[] = {
    "Hello, world! It's 12345678 o'clock; I'LL be there, you'Re not.",
    " leading space",
    "  two spaces  inside   three",
    "tabs\tand\t\ttabs",
    "line\nline\n\nline\r\n  indented\n\t\tx \n \n end  ",
    "trailing spaces   ",
    "3.14159 1,000,000 0x1F 2024-11-29 100000000000",
    "camelCaseWords HTTPServer iPhone15Pro",
    "caf\u00e9 na\u00efve e\u0301 \u00c5ngstr\u00f6m \u1e9b\u0323",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \u3053\u3093\u306b\u3061\u306f\u30ab\u30bf "
    "\uc548\ub155\ud558\uc138\uc694",
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 \u0645\u0631\u062d\u0628\u0627 "
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \u2026 \u2014 \u201cx\u201d",
    "def f(x):\n    return x**2 # comment\n\nif __name__ == '__main__': f(3)",
    "a+b=c; <div class=\"x\">&amp;</div> $100 50% #tag @me /path/to\\file ~`^|",
    "\u00bd \u2167 \u0663\u0664\u0665 \u00b2 x\u2082",
    "zero\u200bwidth\u00a0nbsp\u3000wide",
    "<|endoftext|> </s> <s> [INST] <0x41> \u2581mark\u2581",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "",
    " ",
    "\n",
    "x"};

}  // namespace

std::optional<std::string> first_different_text(const Tokenizer& original,
                                                const MetadataMap& keys) {
  const MetadataSource source(keys);
  const std::shared_ptr<const Tokenizer> converted = make_tokenizer(source);
  for (const std::string_view text : kTexts) {
    for (const bool special : {false, true}) {
      const EncodeOptions options{.add_special = special, .parse_special = special};
      if (original.encode(text, options) != converted->encode(text, options))
        return std::string(text);
    }
  }
  return std::nullopt;
}

}  // namespace sluice
