// Rewrites regular expressions of tokenizers for PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// What steps of tokenizer.json that have no pattern of their own count as part of a word, as the
/// inside of brackets: letters, marks, decimal digits, connectors and joiners. (In patterns, \w has
/// all numbers and no joiners.) Source: Unicode Technical Standard 18, annex C.
inline constexpr std::string_view kWordOfSteps =
    R"(\p{L}\p{Nl}\p{M}\p{Nd}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149})"
    R"(\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}\x{200C}\x{200D})";

/// The pattern with \s, \S and \w spelled out as the Unicode sets that tokenizers mean. With
/// `oniguruma` also \h, and brackets inside brackets: [a[b-d]] becomes [ab-d], and [\p{L}&&[^x]]
/// becomes (?:(?=[^x])[\p{L}]), which stands for one code point as well.
std::string translate_pattern(std::string_view pattern, bool oniguruma);

}  // namespace sluice
