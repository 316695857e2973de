// Filters that apply another filter or a test to every item.
#include <algorithm>
#include <array>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/arguments.hpp"
#include "engine/chat/jinja/builtins.hpp"
#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/operators.hpp"
#include "engine/chat/jinja/text_tools.hpp"

namespace sluice::jinja {

namespace {

Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         arguments.positional.end());
  rest.keywords = arguments.keywords;
  return rest;
}

const std::string& name_from(const Value& value) {
  if (!value.is_text()) type_error("the name of a filter or test must be a string");
  return value.bytes();
}

Value map_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  std::vector<Value> results;
  if (!input.truthy()) return Value::sequence(SequenceType::kIterator, {});
  if (arguments.positional.empty()) {
    const BoundArguments bound("map", arguments, {"attribute", "default"});
    if (bound[0] == nullptr) type_error("map requires a filter argument");
    for (const Value& item : iterate(interpreter, input)) {
      Value value = get_path(interpreter, item, *bound[0]);
      const bool replaced = value.is_undefined() && bound.value(1) != nullptr;
      results.push_back(replaced ? *bound[1] : std::move(value));
    }
  } else {
    const std::string& name = name_from(arguments.positional[0]);
    const Arguments rest = without_first(arguments, 1);
    for (const Value& item : iterate(interpreter, input)) {
      results.push_back(interpreter.call_filter(name, item, rest));
    }
  }
  return Value::sequence(SequenceType::kIterator, std::move(results));
}

/// select, reject, selectattr, rejectattr.
template <bool kWanted, bool kByAttribute>
Value select_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  constexpr std::size_t kOffset = kByAttribute ? 1 : 0;
  if (arguments.positional.size() < kOffset) type_error("Missing parameter for attribute name");
  const bool has_test = arguments.positional.size() > kOffset;
  const Arguments rest = has_test ? without_first(arguments, kOffset + 1) : Arguments{};
  std::vector<Value> selected;
  if (!input.truthy()) return Value::sequence(SequenceType::kIterator, {});
  for (Value& item : iterate(interpreter, input)) {
    const Value value = kByAttribute ? get_path(interpreter, item, arguments.positional[0]) : item;
    const bool passed =
        has_test ? interpreter.call_test(name_from(arguments.positional[kOffset]), value, rest)
                 : value.truthy();
    if (passed == kWanted) selected.push_back(std::move(item));
  }
  return Value::sequence(SequenceType::kIterator, std::move(selected));
}

/// (grouper, list) pairs, sorted by what the items are grouped by.
Value groupby_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const bool any_case = !bound.flag(2, false);
  struct Member {
    Value shown;
    Value key;
    Value item;
  };
  std::vector<Member> members;
  for (const Value& item : iterate(interpreter, input)) {
    Value shown = get_path(interpreter, item, *bound[0]);
    if (shown.is_undefined() && bound.value(1) != nullptr) shown = *bound[1];
    Value key = any_case && shown.is_text()
                    ? Value::text(lower(interpreter.budget(), shown.as_text()))
                    : shown;
    interpreter.budget().allocate(sizeof(Member));
    members.push_back({std::move(shown), std::move(key), item});
  }
  std::stable_sort(members.begin(), members.end(), [&](const Member& a, const Member& b) {
    return less_than(interpreter, a.key, b.key);
  });
  std::vector<Value> groups;
  for (auto first = members.begin(); first != members.end();) {
    std::vector<Value> items;
    auto last = first;
    for (; last != members.end() && equals(interpreter.budget(), last->key, first->key); ++last) {
      items.push_back(last->item);
    }
    groups.push_back(Value::tuple({first->shown, Value::list(std::move(items))}));
    first = last;
  }
  return Value::list(std::move(groups));
}

constexpr std::array<NamedBuiltin, 6> kFilters = {{
    {"map", map_filter},
    {"select", select_filter<true, false>},
    {"reject", select_filter<false, false>},
    {"selectattr", select_filter<true, true>},
    {"rejectattr", select_filter<false, true>},
    {"groupby", groupby_filter},
}};

}  // namespace

std::span<const NamedBuiltin> selection_filters() {
  return kFilters;
}

}  // namespace sluice::jinja
