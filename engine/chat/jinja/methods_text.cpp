// Methods of strings that give strings.
#include <array>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/arguments.hpp"
#include "engine/chat/jinja/builtins.hpp"
#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/string_format.hpp"
#include "engine/chat/jinja/text_tools.hpp"
#include "engine/chat/jinja/unicode.hpp"

namespace sluice::jinja {

namespace {

Value strip_side(Interpreter& interpreter, const Value& input, const Arguments& arguments,
                 Side side) {
  const BoundArguments bound("strip", arguments, {"chars"});
  if (bound[0] != nullptr) require_defined(*bound[0]);
  const Text* characters = bound.value(0) != nullptr ? bound.text(0) : nullptr;
  return Value::text(strip(interpreter.budget(), input.as_text(), characters, side));
}

Value strip_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return strip_side(interpreter, input, arguments, Side::kBoth);
}

Value lstrip_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return strip_side(interpreter, input, arguments, Side::kLeft);
}

Value rstrip_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return strip_side(interpreter, input, arguments, Side::kRight);
}

template <TextPtr (*kOperation)(Budget&, const Text&)>
Value plain(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("this method", arguments, {});
  return Value::text(kOperation(interpreter.budget(), input.as_text()));
}

Value swapcase_method(Interpreter& interpreter, const Value& input, const Arguments&) {
  TextBuilder out(interpreter.budget());
  const Text& text = input.as_text();
  for (std::size_t at = 0; at < text.bytes.size();) {
    const CodePoint c = decode_utf8(text.bytes, at);
    const CaseMapping mapping = is_upper(c.value) ? to_lower(c.value) : to_upper(c.value);
    for (std::size_t i = 0; i < mapping.count; ++i) {
      out.append_code_point(mapping.values[i], text.untrusted_in(at, at + c.length));
    }
    at += c.length;
  }
  return Value::text(out.take_shared());
}

Value replace_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("replace", arguments, {"old", "new", "count"}, 2);
  return Value::text(replace(interpreter.budget(), input.as_text(), *bound.text(0), *bound.text(1),
                             bound.integer(2, -1)));
}

Value split_any(Interpreter& interpreter, const Value& input, const Arguments& arguments,
                bool from_right) {
  const BoundArguments bound("split", arguments, {"sep", "maxsplit"});
  const Text* separator = nullptr;
  if (bound[0] != nullptr && !bound[0]->is_none()) separator = bound.text(0);
  return Value::list(
      split(interpreter.budget(), input.as_text(), separator, bound.integer(1, -1), from_right));
}

Value split_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return split_any(interpreter, input, arguments, false);
}

Value rsplit_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return split_any(interpreter, input, arguments, true);
}

Value splitlines_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("splitlines", arguments, {"keepends"});
  return Value::list(split_lines(interpreter.budget(), input.as_text(), bound.flag(0, false)));
}

Value join_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("join", arguments, {"iterable"}, 1);
  return Value::text(
      join(interpreter.budget(), input.as_text(), iterate(interpreter, *bound[0]), true));
}

Value format_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return Value::text(format_braces(interpreter, input.as_text(), arguments));
}

Value removeprefix_method(Interpreter& interpreter, const Value& input,
                          const Arguments& arguments) {
  const BoundArguments bound("removeprefix", arguments, {"prefix"}, 1);
  const std::string& prefix = bound.text(0)->bytes;
  if (!input.bytes().starts_with(prefix)) return input;
  return Value::text(
      sub_text(interpreter.budget(), input.as_text(), prefix.size(), input.bytes().size()));
}

Value removesuffix_method(Interpreter& interpreter, const Value& input,
                          const Arguments& arguments) {
  const BoundArguments bound("removesuffix", arguments, {"suffix"}, 1);
  const std::string& suffix = bound.text(0)->bytes;
  if (!input.bytes().ends_with(suffix)) return input;
  return Value::text(
      sub_text(interpreter.budget(), input.as_text(), 0, input.bytes().size() - suffix.size()));
}

enum class Justify : std::uint8_t { kLeft, kRight, kCenter };

template <Justify kWhere>
Value justify_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("justify", arguments, {"width", "fillchar"}, 1);
  Text fill;
  fill.bytes = " ";
  if (bound[1] != nullptr) fill = *bound.text(1);
  if (count_code_points(fill.bytes) != 1) {
    type_error("The fill character must be exactly one character long");
  }
  interpreter.budget().work(input.bytes().size());
  const auto length = static_cast<std::int64_t>(count_code_points(input.bytes()));
  const std::int64_t width = bound.integer(0, 0);
  const std::size_t missing = width > length ? static_cast<std::size_t>(width - length) : 0;
  std::size_t left = kWhere == Justify::kRight ? missing : 0;
  if (kWhere == Justify::kCenter) {
    // Python puts the odd one to the left when the width is odd.
    left = missing / 2 + (missing & static_cast<std::size_t>(width) & 1U);
  }
  TextBuilder out(interpreter.budget());
  out.repeat(fill, left);
  out.append(input.as_text());
  out.repeat(fill, missing - left);
  return Value::text(out.take_shared());
}

Value zfill_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("zfill", arguments, {"width"}, 1);
  interpreter.budget().work(input.bytes().size());
  const auto length = static_cast<std::int64_t>(count_code_points(input.bytes()));
  const std::int64_t width = bound.integer(0, 0);
  const bool has_sign = input.bytes().starts_with('+') || input.bytes().starts_with('-');
  TextBuilder out(interpreter.budget());
  out.append(input.as_text(), 0, has_sign ? 1 : 0);
  Text zero;
  zero.bytes = "0";
  if (width > length) out.repeat(zero, static_cast<std::size_t>(width - length));
  out.append(input.as_text(), has_sign ? 1 : 0, input.bytes().size());
  return Value::text(out.take_shared());
}

Value expandtabs_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("expandtabs", arguments, {"tabsize"});
  const std::int64_t size = bound.integer(0, 8);
  const Text& text = input.as_text();
  TextBuilder out(interpreter.budget());
  Text space;
  space.bytes = " ";
  std::int64_t column = 0;
  for (std::size_t at = 0; at < text.bytes.size();) {
    const CodePoint c = decode_utf8(text.bytes, at);
    if (c.value == '\t') {
      const std::int64_t width = size > 0 ? size - column % size : 0;
      out.repeat(space, static_cast<std::size_t>(width));
      column += width;
    } else {
      out.append(text, at, at + c.length);
      column = c.value == '\n' || c.value == '\r' ? 0 : column + 1;
    }
    at += c.length;
  }
  return Value::text(out.take_shared());
}

constexpr std::array<NamedBuiltin, 22> kMethods = {{
    {"strip", strip_method},
    {"lstrip", lstrip_method},
    {"rstrip", rstrip_method},
    {"upper", plain<upper>},
    {"lower", plain<lower>},
    {"casefold", plain<lower>},
    {"title", plain<title>},
    {"capitalize", plain<capitalize>},
    {"swapcase", swapcase_method},
    {"replace", replace_method},
    {"split", split_method},
    {"rsplit", rsplit_method},
    {"splitlines", splitlines_method},
    {"join", join_method},
    {"format", format_method},
    {"removeprefix", removeprefix_method},
    {"removesuffix", removesuffix_method},
    {"ljust", justify_method<Justify::kLeft>},
    {"rjust", justify_method<Justify::kRight>},
    {"center", justify_method<Justify::kCenter>},
    {"zfill", zfill_method},
    {"expandtabs", expandtabs_method},
}};

}  // namespace

std::span<const NamedBuiltin> text_methods() {
  return kMethods;
}

}  // namespace sluice::jinja
