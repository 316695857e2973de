// Unicode normalization form C: letters and their marks as one code point where there is one.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// False when normalize_nfc can't change anything, told from the bytes alone; true is a maybe.
bool may_need_nfc(std::string_view text);

/// `text` in form C. Bytes that are not UTF-8 stay as they are and separate what stands on
/// either side. n log n at worst. Source: Unicode Standard Annex 15.
std::string normalize_nfc(std::string_view text);

}  // namespace sluice
