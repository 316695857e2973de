#include "engine/tokenizer/hf_decoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "engine/formats/quote_text.hpp"
#include "engine/tokenizer/byte_alphabet.hpp"
#include "engine/tokenizer/hf_normalizer.hpp"
#include "engine/tokenizer/normalizer_steps.hpp"
#include "engine/tokenizer/space_mark.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace sluice {
namespace {

using simdjson::dom::element;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr int kDeepest = 16;                               // sequences in sequences

/// Bytes of the ill-formed part at text[at]: a code point that is cut short is one part.
std::size_t ill_formed_length(std::string_view text, std::size_t at) {
  std::size_t longest = 1;
  for (std::size_t size = 2; size <= 3 && at + size <= text.size(); ++size) {
    // Some end makes it whole.
    for (const std::string_view end : {"\x80", "\xBF", "\x90", "\xA0", "\x80\x80", "\x90\x80"}) {
      std::string whole(text.substr(at, size));
      whole += end;
      if (utf8_length(whole, 0) == whole.size()) longest = size;
    }
  }
  return longest;
}

std::string with_replacements(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) {
      out += kReplacement;
      at += ill_formed_length(text, at);
    } else {
      out += text.substr(at, length);
      at += length;
    }
  }
  return out;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  while (!text.empty()) {
    const std::size_t at = from.empty() ? text.size() : std::min(text.find(from), text.size());
    out += text.substr(0, at);
    if (at == text.size()) break;
    out += to;
    text.remove_prefix(at + from.size());
  }
  return out;
}

class ByteLevelStep final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& texts) const override {
    std::string bytes;
    for (std::string& text : texts) bytes += apply_inside(std::move(text));
    texts.assign(1, with_replacements(bytes));
  }
  std::string apply_inside(std::string text) const override {
    auto bytes = bytes_from_alphabet(text);
    return bytes ? std::move(*bytes) : std::move(text);
  }
};

class ByteFallbackStep final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& texts) const override {
    std::vector<std::string> result;
    std::string run;
    const auto finish_run = [&] {
      if (run.empty()) return;
      if (well_formed_prefix(run) == run.size()) {
        result.push_back(run);
      } else {
        result.insert(result.end(), run.size(), std::string(kReplacement));
      }
      run.clear();
    };
    for (std::string& text : texts) {
      const auto byte = byte_of_token(text);
      if (byte) {
        run += static_cast<char>(*byte);
        continue;
      }
      finish_run();
      result.push_back(std::move(text));
    }
    finish_run();
    texts = std::move(result);
  }
  std::string apply_inside(std::string text) const override {
    const auto byte = byte_of_token(text);
    return byte ? std::string(1, static_cast<char>(*byte)) : std::move(text);
  }
};

class FuseStep final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& texts) const override {
    std::string all;
    for (const std::string& text : texts) all += text;
    texts.assign(1, std::move(all));
  }
  std::string apply_inside(std::string text) const override { return text; }
};

/// Drops up to so many of a character at the ends of each text.
class StripEndsStep final : public DecoderStep {
 public:
  StripEndsStep(std::string content, std::size_t start, std::size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}

  void apply(std::vector<std::string>& texts) const override {
    for (std::string& text : texts) {
      for (std::size_t i = 0; i < start_ && text.starts_with(content_); ++i) {
        text.erase(0, content_.size());
      }
      for (std::size_t i = 0; i < stop_ && text.ends_with(content_); ++i) {
        text.resize(text.size() - content_.size());
      }
    }
  }
  std::string apply_inside(std::string text) const override { return text; }
  bool drops_first_space() const override { return content_ == " " && start_ > 0; }

 private:
  std::string content_;
  std::size_t start_;
  std::size_t stop_;
};

/// A replacement in each text by itself.
class ReplaceStep final : public DecoderStep {
 public:
  explicit ReplaceStep(NormalizerStepPtr step) : step_(std::move(step)) {}
  void apply(std::vector<std::string>& texts) const override {
    for (std::string& text : texts) text = step_->apply(text);
  }
  std::string apply_inside(std::string text) const override { return step_->apply(text); }

 private:
  NormalizerStepPtr step_;
};

class MetaspaceStep final : public DecoderStep {
 public:
  MetaspaceStep(std::string mark, bool has_prefix)
      : mark_(std::move(mark)), has_prefix_(has_prefix) {}

  void apply(std::vector<std::string>& texts) const override {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      texts[i] = replaced(texts[i], mark_, i == 0 && has_prefix_ ? "" : " ");
    }
  }
  std::string apply_inside(std::string text) const override { return replaced(text, mark_, " "); }
  bool drops_first_space() const override { return has_prefix_; }

 private:
  std::string mark_;
  bool has_prefix_;
};

/// Words with spaces between; what goes on in a word has a prefix.
class WordPieceStep final : public DecoderStep {
 public:
  WordPieceStep(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}

  void apply(std::vector<std::string>& texts) const override {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      texts[i] = i == 0 ? cleaned(texts[i]) : apply_inside(std::move(texts[i]));
    }
  }
  std::string apply_inside(std::string text) const override {
    if (!prefix_.empty() && text.starts_with(prefix_)) {
      text.erase(0, prefix_.size());
    } else {
      text.insert(0, 1, ' ');
    }
    return cleaned(std::move(text));
  }
  bool drops_first_space() const override { return true; }

 private:
  /// English punctuation and contractions lose the space before them.
  std::string cleaned(std::string text) const {
    if (!cleanup_) return text;
    constexpr std::pair<std::string_view, std::string_view> kRules[] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [from, to] : kRules) text = replaced(text, from, to);
    return text;
  }

  std::string prefix_;
  bool cleanup_;
};

/// Words end with a suffix, which stands for the space behind them.
class SuffixStep final : public DecoderStep {
 public:
  explicit SuffixStep(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& texts) const override {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      texts[i] = replaced(texts[i], suffix_, i + 1 == texts.size() ? "" : " ");
    }
  }
  std::string apply_inside(std::string text) const override { return replaced(text, suffix_, " "); }

 private:
  std::string suffix_;
};

/// Files without a decoder: the texts with spaces between.
class JoinStep final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& texts) const override {
    for (std::size_t i = 1; i < texts.size(); ++i) texts[i].insert(0, 1, ' ');
  }
  std::string apply_inside(std::string text) const override { return " " + text; }
  bool drops_first_space() const override { return true; }
};

using Steps = std::vector<std::unique_ptr<const DecoderStep>>;

void read_step(const JsonFile& file, element step, int depth, Steps& steps) {
  const std::string_view type = file.text(step, "type");
  if (type == "Sequence") {
    if (depth >= kDeepest) file.corrupt("its decoders are nested too deep");
    for (const element inner : file.array(step, "decoders")) {
      read_step(file, inner, depth + 1, steps);
    }
  } else if (type == "ByteLevel") {
    steps.push_back(std::make_unique<ByteLevelStep>());
  } else if (type == "ByteFallback") {
    steps.push_back(std::make_unique<ByteFallbackStep>());
  } else if (type == "Fuse") {
    steps.push_back(std::make_unique<FuseStep>());
  } else if (type == "Strip") {
    std::string content(text_member(step, "content").value_or(" "));
    if (content.empty()) file.corrupt("the \"content\" of a Strip is empty");
    steps.push_back(std::make_unique<StripEndsStep>(std::move(content), file.count(step, "start"),
                                                    file.count(step, "stop")));
  } else if (type == "Replace") {
    steps.push_back(std::make_unique<ReplaceStep>(
        make_replace_step(read_hf_pattern(file, step), std::string(file.text(step, "content")))));
  } else if (type == "Metaspace") {
    const bool has_prefix = text_member(step, "prepend_scheme")
                                ? *text_member(step, "prepend_scheme") != "never"
                                : flag_member(step, "add_prefix_space", true);
    steps.push_back(std::make_unique<MetaspaceStep>(
        std::string(text_member(step, "replacement").value_or(kSpaceMark)), has_prefix));
  } else if (type == "WordPiece") {
    steps.push_back(
        std::make_unique<WordPieceStep>(std::string(text_member(step, "prefix").value_or("##")),
                                        flag_member(step, "cleanup", true)));
  } else if (type == "BPEDecoder") {
    steps.push_back(
        std::make_unique<SuffixStep>(std::string(text_member(step, "suffix").value_or("</w>"))));
  } else {
    file.unsupported(fmt::format("the decoder {}", quote_text(type)));
  }
}

}  // namespace

HfDecoder::HfDecoder(const JsonFile& file) {
  if (const auto root = member(file.root(), "decoder")) {
    read_step(file, *root, 0, steps_);
  } else {
    steps_.push_back(std::make_unique<JoinStep>());
  }
}

std::string HfDecoder::decode(std::vector<std::string> texts) const {
  for (const auto& step : steps_) step->apply(texts);
  std::string all;
  for (const std::string& text : texts) all += text;
  return all;
}

std::string HfDecoder::token_bytes(std::string text) const {
  for (const auto& step : steps_) text = step->apply_inside(std::move(text));
  return text;
}

bool HfDecoder::drops_first_space() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const auto& step) { return step->drops_first_space(); });
}

}  // namespace sluice
