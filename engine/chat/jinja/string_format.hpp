// Python's two ways to format text: "%s items" % 3 and "{} items".format(3).
#pragma once

#include <string_view>

#include "engine/chat/jinja/value.hpp"

namespace sluice::jinja {

/// text % arguments.
TextPtr format_percent(Interpreter& interpreter, const Text& text, const Value& arguments);
/// text.format(*arguments). Attributes in fields ("{0.name}") pass the sandbox.
TextPtr format_braces(Interpreter& interpreter, const Text& text, const Arguments& arguments);
/// format(value, spec), with Python's format specification, e.g. ">8", "05.2f", ",".
TextPtr format_value(Interpreter& interpreter, const Value& value, std::string_view spec);

}  // namespace sluice::jinja
