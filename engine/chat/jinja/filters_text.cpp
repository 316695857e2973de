// Filters that give text.
#include <algorithm>
#include <array>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/arguments.hpp"
#include "engine/chat/jinja/builtins.hpp"
#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/operators.hpp"
#include "engine/chat/jinja/python_format.hpp"
#include "engine/chat/jinja/string_format.hpp"
#include "engine/chat/jinja/text_tools.hpp"
#include "engine/chat/jinja/unicode.hpp"

namespace sluice::jinja {

namespace {

/// upper and lower also take dicts: str() first.
template <TextPtr (*kOperation)(Budget&, const Text&)>
Value cased(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("this filter", arguments, {});
  const TextPtr text = to_text(interpreter.budget(), input);
  return Value::text(kOperation(interpreter.budget(), *text));
}

/// Words begin after white space, "-" and opening brackets.
Value title_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("title", arguments, {});
  Budget& budget = interpreter.budget();
  const TextPtr text = to_text(budget, input);
  TextBuilder out(budget);
  const auto separates = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  for (std::size_t at = 0; at < text->bytes.size();) {
    std::size_t end = at;
    const bool separator = separates(decode_utf8(text->bytes, at).value);
    while (end < text->bytes.size() &&
           separates(decode_utf8(text->bytes, end).value) == separator) {
      end += decode_utf8(text->bytes, end).length;
    }
    const std::size_t second = at + decode_utf8(text->bytes, at).length;
    out.append(*upper(budget, *sub_text(budget, *text, at, second)));
    out.append(*lower(budget, *sub_text(budget, *text, second, end)));
    at = end;
  }
  return Value::text(out.take_shared());
}

Value trim_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("trim", arguments, {"chars"});
  const TextPtr text = to_text(interpreter.budget(), input);
  const Text* characters = bound.value(0) != nullptr ? bound.text(0) : nullptr;
  return Value::text(strip(interpreter.budget(), *text, characters, Side::kBoth));
}

Value replace_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("replace", arguments, {"old", "new", "count"}, 2);
  Budget& budget = interpreter.budget();
  const std::int64_t count = bound.value(2) != nullptr ? bound.integer(2, -1) : -1;
  return Value::text(replace(budget, *to_text(budget, input), *to_text(budget, *bound[0]),
                             *to_text(budget, *bound[1]), count));
}

Value indent_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("indent", arguments, {"width", "first", "blank"});
  Budget& budget = interpreter.budget();
  require_defined(input);
  if (!input.is_text()) {
    type_error("unsupported operand type(s) for +=: '" + input.type_name() + "' and 'str'");
  }
  TextBuilder unit(budget);
  if (bound[0] != nullptr && bound[0]->is_text()) {
    unit.append(bound[0]->as_text());
  } else {
    Text space;
    space.bytes = " ";
    unit.repeat(space, static_cast<std::size_t>(std::max<std::int64_t>(bound.integer(0, 4), 0)));
  }
  const Text indention = unit.take();
  const bool indent_first = bound.flag(1, false);
  const bool indent_blank = bound.flag(2, false);
  TextBuilder with_end(budget);
  with_end.append(input.as_text());
  with_end.append("\n");
  const std::vector<Value> lines = split_lines(budget, with_end.take(), false);
  TextBuilder out(budget);
  if (indent_first) out.append(indention);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i != 0) {
      out.append("\n");
      if (indent_blank || !lines[i].bytes().empty()) out.append(indention);
    }
    out.append(lines[i].as_text());
  }
  out.set_escaped(input.as_text().escaped);
  return Value::text(out.take_shared());
}

Value truncate_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  Budget& budget = interpreter.budget();
  const std::int64_t length = bound.integer(0, 255);
  const std::int64_t leeway = bound.value(3) != nullptr ? bound.integer(3, 5) : 5;
  Text dots;
  dots.bytes = "...";
  const Text& end = bound[2] != nullptr ? *bound.text(2) : dots;
  const auto end_length = static_cast<std::int64_t>(count_code_points(end.bytes));
  if (length < end_length || leeway < 0) value_error("truncate() needs a length that fits its end");
  const auto size = length_of(interpreter, input);
  if (!size) type_error("object of type '" + input.type_name() + "' has no len()");
  const auto excess = static_cast<std::int64_t>(*size) - length;
  if (excess <= leeway) return input;
  if (!input.is_text()) type_error("truncate() shortens strings, not " + input.type_name());
  const TextPtr& text = input.text_ptr();
  const std::vector<std::size_t> offsets = code_point_offsets(text->bytes);
  std::size_t cut = offsets[static_cast<std::size_t>(length - end_length)];
  if (!bound.flag(1, false)) {
    const std::size_t space = text->bytes.rfind(' ', cut == 0 ? 0 : cut - 1);
    if (space != std::string::npos && cut != 0) cut = space;
  }
  TextBuilder out(budget);
  out.append(*text, 0, cut);
  out.append(end);
  return Value::text(out.take_shared());
}

Value center_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("center", arguments, {"width"});
  const Value text = Value::text(to_text(interpreter.budget(), input));
  const Arguments width{{Value::integer(bound.integer(0, 80))}, {}};
  return find_method(text, "center")->function(interpreter, text, width);
}

Value join_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("join", arguments, {"d", "attribute"});
  Budget& budget = interpreter.budget();
  std::vector<Value> items = iterate(interpreter, input);
  if (bound.value(1) != nullptr) {
    for (Value& item : items) item = get_path(interpreter, item, *bound[1]);
  }
  const TextPtr separator =
      bound[0] != nullptr ? to_text(budget, *bound[0]) : Value::text("").text_ptr();
  return Value::text(join(budget, *separator, items, false));
}

Value string_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("string", arguments, {});
  return Value::text(to_text(interpreter.budget(), input));
}

Value safe_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("safe", arguments, {});
  TextBuilder out(interpreter.budget());
  append_str(out, interpreter.budget(), input);
  out.set_escaped(true);
  return Value::text(out.take_shared());
}

Value escape_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("escape", arguments, {});
  const TextPtr text = to_text(interpreter.budget(), input);
  return Value::text(text->escaped ? text : escape_html(interpreter.budget(), *text));
}

Value forceescape_filter(Interpreter& interpreter, const Value& input, const Arguments&) {
  return Value::text(escape_html(interpreter.budget(), *to_text(interpreter.budget(), input)));
}

Value format_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const TextPtr text = to_text(interpreter.budget(), input);
  if (arguments.keywords.empty()) {
    return Value::text(format_percent(interpreter, *text, Value::tuple(arguments.positional)));
  }
  Dict values;
  for (const auto& [name, value] : arguments.keywords) values.set(Value::text(name), value);
  return Value::text(format_percent(interpreter, *text, Value::dict(std::move(values))));
}

Value wordcount_filter(Interpreter& interpreter, const Value& input, const Arguments&) {
  const TextPtr text = to_text(interpreter.budget(), input);
  interpreter.budget().work(text->bytes.size() * 10);
  std::int64_t words = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text->bytes.size();) {
    const CodePoint c = decode_utf8(text->bytes, at);
    const bool part = c.value == '_' || is_alnum(c.value);
    if (part && !in_word) ++words;
    in_word = part;
    at += c.length;
  }
  return Value::integer(words);
}

Value urlencode_filter(Interpreter& interpreter, const Value& input, const Arguments&) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  static constexpr std::string_view kKept =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~/";
  if (!input.is_text() && is_iterable(input)) type_error("urlencode() takes a string");
  const TextPtr text = to_text(interpreter.budget(), input);
  TextBuilder out(interpreter.budget());
  for (std::size_t at = 0; at < text->bytes.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text->bytes[at]);
    if (kKept.find(text->bytes[at]) != std::string_view::npos) {
      out.append(*text, at, at + 1);
    } else {
      const char code[3] = {'%', kHex[byte >> 4], kHex[byte & 15]};
      out.append(std::string_view(code, 3), text->any_untrusted());
    }
  }
  return Value::text(out.take_shared());
}

constexpr std::array<NamedBuiltin, 18> kFilters = {{
    {"upper", cased<upper>},
    {"lower", cased<lower>},
    {"capitalize", cased<capitalize>},
    {"title", title_filter},
    {"trim", trim_filter},
    {"replace", replace_filter},
    {"indent", indent_filter},
    {"truncate", truncate_filter},
    {"center", center_filter},
    {"join", join_filter},
    {"string", string_filter},
    {"safe", safe_filter},
    {"escape", escape_filter},
    {"e", escape_filter},
    {"forceescape", forceescape_filter},
    {"format", format_filter},
    {"wordcount", wordcount_filter},
    {"urlencode", urlencode_filter},
}};

}  // namespace

std::span<const NamedBuiltin> text_filters() {
  return kFilters;
}

}  // namespace sluice::jinja
