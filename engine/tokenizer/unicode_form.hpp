// Unicode normalization forms, and lower case. Source: Unicode Standard Annex 15.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

enum class UnicodeForm {
  kC,   ///< composed: letters and their marks as one code point where there is one
  kD,   ///< decomposed
  kKc,  ///< composed, and compatibility characters (ligatures, wide forms) as what they mean
  kKd,  ///< decomposed, likewise
};

/// `text` in that form. Bytes that are not UTF-8 stay as they are and separate what stands on
/// either side. n log n at worst.
std::string normalize_unicode(std::string_view text, UnicodeForm form);

/// Simple lower case of each code point, whatever stands around it.
std::string lower_case(std::string_view text);

}  // namespace sluice
