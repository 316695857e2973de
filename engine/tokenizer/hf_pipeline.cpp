#include "engine/tokenizer/hf_pipeline.hpp"

#include <fmt/format.h>

#include "engine/formats/quote_text.hpp"
#include "engine/tokenizer/pre_tokenizer.hpp"
#include "engine/tokenizer/space_mark.hpp"

namespace sluice {
namespace {

using simdjson::dom::element;

class PipelineReader {
 public:
  explicit PipelineReader(const JsonFile& file) : file_(file) {}

  HfPipeline read() {
    if (const auto step = member(file_.root(), "normalizer")) read_normalizer(*step);
    if (const auto step = member(file_.root(), "pre_tokenizer")) read_pre_tokenizer(*step);
    if (const auto step = member(file_.root(), "post_processor")) read_post_processor(*step);
    if (const auto step = member(file_.root(), "decoder")) read_decoder(*step);
    return std::move(pipeline_);
  }

 private:
  /// Calls `read` for the step, or for each step of a Sequence, whose list is called `list`.
  template <class Read>
  void for_each_step(element step, std::string_view list, Read read) {
    if (file_.text(step, "type") != "Sequence") {
      read(step);
      return;
    }
    for (const element inner : file_.array(step, list)) {
      if (file_.text(inner, "type") == "Sequence") file_.unsupported("a sequence in a sequence");
      read(inner);
    }
  }

  void read_normalizer(element root) {
    for_each_step(root, "normalizers", [&](element step) {
      const std::string_view type = file_.text(step, "type");
      if (type == "NFC") {
        pipeline_.normalize_nfc = true;
      } else if (type == "Prepend") {
        pipeline_.prefix = file_.text(step, "prepend");
      } else if (type == "Replace" && literal_pattern(step) == " " &&
                 file_.text(step, "content") == kSpaceMark) {
        pipeline_.replace_spaces = true;
      } else {
        file_.unsupported(fmt::format("the normalizer {}", quote_text(type)));
      }
    });
  }

  void read_pre_tokenizer(element root) {
    for_each_step(root, "pretokenizers", [&](element step) {
      const std::string_view type = file_.text(step, "type");
      if (type == "ByteLevel") {
        read_byte_level(step);
      } else if (type == "Split") {
        read_split(step);
      } else if (type == "Digits") {
        const bool single = flag_member(step, "individual_digits", false);
        pipeline_.patterns.emplace_back(single ? R"(\p{N})" : R"(\p{N}+)");
      } else {
        file_.unsupported(fmt::format("the pre-tokenizer {}", quote_text(type)));
      }
    });
  }

  void read_byte_level(element step) {
    if (flag_member(step, "add_prefix_space", false)) {
      file_.unsupported("a space in front of byte-level text (add_prefix_space)");
    }
    pipeline_.byte_level = true;
    if (!flag_member(step, "use_regex", true)) return;
    for (const std::string_view pattern : find_pre_tokenizer("gpt-2")->patterns) {
      pipeline_.patterns.emplace_back(pattern);
    }
  }

  void read_split(element step) {
    const std::string_view behavior = file_.text(step, "behavior");
    // Once spaces have been replaced, a split at spaces never cuts anything.
    if (pipeline_.replace_spaces && literal_pattern(step) == " ") return;
    if (behavior != "Isolated" || flag_member(step, "invert", false)) {
      file_.unsupported(fmt::format("a split with the behavior {}", quote_text(behavior)));
    }
    const auto pattern = member(step, "pattern");
    const auto expression = pattern ? text_member(*pattern, "Regex") : std::nullopt;
    if (!expression) file_.unsupported("a split at a fixed text");
    try {
      const Regex tried(*expression);
    } catch (const std::exception& fault) {
      file_.corrupt(fault.what());
    }
    pipeline_.patterns.emplace_back(*expression);
  }

  void read_post_processor(element root) {
    for_each_step(root, "processors", [&](element step) {
      const std::string_view type = file_.text(step, "type");
      if (type == "TemplateProcessing") {
        read_template(step);
      } else if (type != "ByteLevel") {  // which only moves offsets
        file_.unsupported(fmt::format("the post-processor {}", quote_text(type)));
      }
    });
  }

  void read_template(element step) {
    bool before_text = true;
    for (const element part : file_.array(step, "single")) {
      const auto special = member(part, "SpecialToken");
      if (!special) {
        before_text = false;
        continue;
      }
      auto& tokens = before_text ? pipeline_.first_tokens : pipeline_.last_tokens;
      tokens.emplace_back(file_.text(*special, "id"));
    }
  }

  void read_decoder(element root) {
    for_each_step(root, "decoders", [&](element step) {
      if (file_.text(step, "type") == "Strip") pipeline_.strip_first_space = true;
    });
  }

  /// The fixed text of a pattern, if it is one.
  static std::optional<std::string_view> literal_pattern(element step) {
    const auto pattern = member(step, "pattern");
    return pattern ? text_member(*pattern, "String") : std::nullopt;
  }

  const JsonFile& file_;
  HfPipeline pipeline_;
};

}  // namespace

HfPipeline read_hf_pipeline(const JsonFile& file) {
  return PipelineReader(file).read();
}

}  // namespace sluice
