// Methods of strings that look for something or ask for a property.
#include <algorithm>
#include <array>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/arguments.hpp"
#include "engine/chat/jinja/builtins.hpp"
#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/text_search.hpp"
#include "engine/chat/jinja/unicode.hpp"

namespace sluice::jinja {

namespace {

/// The part of the input that (…, start, end) name, in bytes, and the offsets to count by.
struct Part {
  std::vector<std::size_t> offsets;
  std::size_t begin = 0;
  std::size_t end = 0;
};

Part part_of(Interpreter& interpreter, const Text& text, const BoundArguments& bound) {
  interpreter.budget().work(text.bytes.size() * 2);
  Part part;
  part.offsets = code_point_offsets(text.bytes);
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;
  if (bound.value(1) != nullptr) start = bound.integer(1, 0);
  if (bound.value(2) != nullptr) stop = bound.integer(2, 0);
  const auto [first, last] = clamp_range(start, stop, part.offsets.size() - 1);
  part.begin = part.offsets[first];
  part.end = part.offsets[last];
  return part;
}

std::int64_t code_point_index(const Part& part, std::size_t byte) {
  const auto at = std::lower_bound(part.offsets.begin(), part.offsets.end(), byte);
  return at - part.offsets.begin();
}

/// Position in code points, or -1.
std::int64_t find_position(Interpreter& interpreter, const Value& input, const Arguments& arguments,
                           bool from_right) {
  const BoundArguments bound("find", arguments, {"sub", "start", "end"}, 1);
  const Part part = part_of(interpreter, input.as_text(), bound);
  const std::string_view range =
      std::string_view(input.bytes()).substr(part.begin, part.end - part.begin);
  const std::string& what = bound.text(0)->bytes;
  const std::size_t found =
      from_right ? ReverseFinder(range, what).find(range.size()) : find_bytes(range, what, 0);
  return found == std::string::npos ? -1 : code_point_index(part, part.begin + found);
}

template <bool kFromRight>
Value find_method_of_text(Interpreter& interpreter, const Value& input,
                          const Arguments& arguments) {
  return Value::integer(find_position(interpreter, input, arguments, kFromRight));
}

template <bool kFromRight>
Value index_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const std::int64_t position = find_position(interpreter, input, arguments, kFromRight);
  if (position < 0) value_error("substring not found");
  return Value::integer(position);
}

Value count_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("count", arguments, {"sub", "start", "end"}, 1);
  const Part part = part_of(interpreter, input.as_text(), bound);
  const std::string_view range =
      std::string_view(input.bytes()).substr(part.begin, part.end - part.begin);
  const std::string& what = bound.text(0)->bytes;
  if (what.empty()) {
    return Value::integer(static_cast<std::int64_t>(count_code_points(range)) + 1);
  }
  std::int64_t count = 0;
  for (std::size_t at = find_bytes(range, what, 0); at != std::string::npos;
       at = find_bytes(range, what, at + what.size())) {
    ++count;
  }
  return Value::integer(count);
}

/// startswith and endswith: a text or a tuple of texts.
Value affix_method(Interpreter& interpreter, const Value& input, const Arguments& arguments,
                   const std::string& name, bool at_end) {
  const BoundArguments bound(name, arguments, {"affix", "start", "end"}, 1);
  std::string_view range = input.bytes();
  if (bound[1] != nullptr) {
    const Part part = part_of(interpreter, input.as_text(), bound);
    range = range.substr(part.begin, part.end - part.begin);
  }
  const auto matches = [&](const Value& affix) {
    require_defined(affix);
    if (!affix.is_text()) {
      type_error(name + " first arg must be str or a tuple of str, not " + affix.type_name());
    }
    interpreter.budget().work(affix.bytes().size());
    return at_end ? range.ends_with(affix.bytes()) : range.starts_with(affix.bytes());
  };
  const Value& affix = *bound[0];
  if (!affix.is_sequence(SequenceType::kTuple)) return Value::boolean(matches(affix));
  return Value::boolean(std::any_of(affix.items().begin(), affix.items().end(), matches));
}

Value startswith_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return affix_method(interpreter, input, arguments, "startswith", false);
}

Value endswith_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return affix_method(interpreter, input, arguments, "endswith", true);
}

template <bool kFromRight>
Value partition_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("partition", arguments, {"sep"}, 1);
  const Text& separator = *bound.text(0);
  if (separator.bytes.empty()) value_error("empty separator");
  const Text& text = input.as_text();
  Budget& budget = interpreter.budget();
  budget.work(text.bytes.size());
  const std::size_t found = kFromRight
                                ? ReverseFinder(text.bytes, separator.bytes).find(text.bytes.size())
                                : find_bytes(text.bytes, separator.bytes, 0);
  if (found == std::string::npos) {
    const Value empty = Value::text("");
    return kFromRight ? Value::tuple({empty, empty, input}) : Value::tuple({input, empty, empty});
  }
  return Value::tuple(
      {Value::text(sub_text(budget, text, 0, found)), Value::text(bound[0]->text_ptr()),
       Value::text(sub_text(budget, text, found + separator.bytes.size(), text.bytes.size()))});
}

template <bool (*kProperty)(char32_t)>
Value all_have(Interpreter& interpreter, const Value& input, const Arguments&) {
  interpreter.budget().work(input.bytes().size() * 10);
  const std::string_view bytes = input.bytes();
  for (std::size_t at = 0; at < bytes.size();) {
    const CodePoint c = decode_utf8(bytes, at);
    if (!kProperty(c.value)) return Value::boolean(false);
    at += c.length;
  }
  return Value::boolean(!bytes.empty());
}

/// isupper and islower: some cased letters, and all of them this way.
template <bool kUpper>
Value case_method(Interpreter& interpreter, const Value& input, const Arguments&) {
  interpreter.budget().work(input.bytes().size() * 10);
  bool any = false;
  for (std::size_t at = 0; at < input.bytes().size();) {
    const CodePoint c = decode_utf8(input.bytes(), at);
    at += c.length;
    if (!is_cased(c.value)) continue;
    any = true;
    if (kUpper ? !is_upper(c.value) : !is_lower(c.value)) return Value::boolean(false);
  }
  return Value::boolean(any);
}

Value istitle_method(Interpreter& interpreter, const Value& input, const Arguments&) {
  interpreter.budget().work(input.bytes().size() * 10);
  bool any = false;
  bool in_word = false;
  for (std::size_t at = 0; at < input.bytes().size();) {
    const CodePoint c = decode_utf8(input.bytes(), at);
    at += c.length;
    if (is_cased(c.value) && is_lower(c.value) != in_word) return Value::boolean(false);
    in_word = is_cased(c.value);
    any |= in_word;
  }
  return Value::boolean(any);
}

bool is_ascii_code_point(char32_t c) {
  return c < 0x80;
}

Value isascii_method(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  if (input.bytes().empty()) return Value::boolean(true);
  return all_have<is_ascii_code_point>(interpreter, input, arguments);
}

constexpr std::array<NamedBuiltin, 19> kMethods = {{
    {"find", find_method_of_text<false>},
    {"rfind", find_method_of_text<true>},
    {"index", index_method<false>},
    {"rindex", index_method<true>},
    {"count", count_method},
    {"startswith", startswith_method},
    {"endswith", endswith_method},
    {"partition", partition_method<false>},
    {"rpartition", partition_method<true>},
    {"isalpha", all_have<is_alpha>},
    {"isdigit", all_have<is_digit>},
    {"isdecimal", all_have<is_digit>},
    {"isnumeric", all_have<is_digit>},
    {"isalnum", all_have<is_alnum>},
    {"isspace", all_have<is_space>},
    {"isascii", isascii_method},
    {"isupper", case_method<true>},
    {"islower", case_method<false>},
    {"istitle", istitle_method},
}};

}  // namespace

std::span<const NamedBuiltin> text_search_methods() {
  return kMethods;
}

}  // namespace sluice::jinja
