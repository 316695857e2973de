// The steps before and after the model of a tokenizer.json.
#pragma once

#include <string>
#include <vector>

#include "engine/tokenizer/hf_json.hpp"

namespace sluice {

/// What normalizer, pre-tokenizer, post-processor and decoder ask for, taken together.
struct HfPipeline {
  bool normalize_nfc = false;
  std::string prefix;                     ///< put before every run of text
  bool replace_spaces = false;            ///< spaces become U+2581
  bool byte_level = false;                ///< bytes have stand-ins, as in GPT-2
  bool strip_first_space = false;         ///< decoding drops one space in front
  std::vector<std::string> patterns;      ///< regular expressions that cut text, in order
  std::vector<std::string> first_tokens;  ///< special tokens put before
  std::vector<std::string> last_tokens;   ///< and after the text
};

/// Throws Error: kCorrupt, kUnsupported (naming the step).
HfPipeline read_hf_pipeline(const JsonFile& file);

}  // namespace sluice
