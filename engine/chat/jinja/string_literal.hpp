// The inside of a quoted string in a template to its value.
#pragma once

#include <string>
#include <string_view>

namespace sluice::jinja {

/// Python's escapes: \n \t \\ \' \x41 \u00e9 \U0001f999 \101; an unknown one stays as it is.
/// Throws Failure(kSyntax) for an incomplete or impossible one.
std::string unescape_string_literal(std::string_view inside);

}  // namespace sluice::jinja
