// The rewriting steps that published tokenizers use.
#pragma once

#include <string>
#include <string_view>

#include "engine/tokenizer/normalizer.hpp"
#include "engine/tokenizer/regex.hpp"
#include "engine/tokenizer/unicode_form.hpp"

namespace sluice {

NormalizerStepPtr make_unicode_form_step(UnicodeForm form);
/// Simple lower case of every code point.
NormalizerStepPtr make_lowercase_step();
/// Drops white space at the start, at the end, or both.
NormalizerStepPtr make_strip_step(bool left, bool right);
/// Every `from` (not empty) becomes `to`.
NormalizerStepPtr make_replace_step(std::string from, std::string to);
/// Every match of `from` becomes `to`, which is taken as it stands.
NormalizerStepPtr make_replace_step(Regex from, std::string to);
/// Puts `prefix` before text that is not empty.
NormalizerStepPtr make_prepend_step(std::string prefix);
/// Every byte becomes its stand-in (byte_alphabet.hpp).
NormalizerStepPtr make_byte_alphabet_step();
/// SentencePiece's table of rewritings, as it is stored in models, applied cluster by cluster.
/// Throws Error(kCorrupt).
NormalizerStepPtr make_char_map_step(std::string_view char_map);

}  // namespace sluice
