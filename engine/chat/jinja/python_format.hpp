// Values as Python prints them: str(), repr() and the digits of numbers.
#pragma once

#include <string>
#include <string_view>

#include "engine/chat/jinja/value.hpp"

namespace sluice::jinja {

/// repr(float): shortest digits that read back the same; "1.0", "1e-05", "1e+16", "inf", "nan".
std::string format_real(double number);

/// str(value). Marks of texts inside are kept; a quoted text with any mark is marked entirely.
void append_str(TextBuilder& out, Budget& budget, const Value& value);
/// repr(value).
void append_repr(TextBuilder& out, Budget& budget, const Value& value);

/// str(value) as a text of its own; texts are passed through.
TextPtr to_text(Budget& budget, const Value& value);

/// repr() of a short string, for messages.
std::string quoted(std::string_view text);

}  // namespace sluice::jinja
