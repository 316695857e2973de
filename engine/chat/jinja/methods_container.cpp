// Methods of lists and dicts. The ones that change their object work only in relaxed renderings.
#include <algorithm>
#include <array>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/arguments.hpp"
#include "engine/chat/jinja/builtins.hpp"
#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/operators.hpp"
#include "engine/chat/jinja/python_format.hpp"

namespace sluice::jinja {

namespace {

// --- lists ---

std::size_t find_item(Interpreter& interpreter, const Value& list, const Value& item) {
  const auto& items = list.items();
  const auto found = std::find_if(items.begin(), items.end(), [&](const Value& candidate) {
    return equals(interpreter.budget(), candidate, item);
  });
  if (found == items.end()) {
    TextBuilder out(interpreter.budget());
    append_repr(out, interpreter.budget(), item);
    value_error(out.text().bytes + " is not in list");
  }
  return static_cast<std::size_t>(found - items.begin());
}

Value index_method(Interpreter& interpreter, const Value& list, const Arguments& arguments) {
  const BoundArguments bound("index", arguments, {"value"}, 1);
  return Value::integer(static_cast<std::int64_t>(find_item(interpreter, list, *bound[0])));
}

Value count_method(Interpreter& interpreter, const Value& list, const Arguments& arguments) {
  const BoundArguments bound("count", arguments, {"value"}, 1);
  return Value::integer(std::count_if(
      list.items().begin(), list.items().end(),
      [&](const Value& candidate) { return equals(interpreter.budget(), candidate, *bound[0]); }));
}

Value copy_list(Interpreter& interpreter, const Value& list, const Arguments& arguments) {
  const BoundArguments bound("copy", arguments, {});
  return Value::list(iterate(interpreter, list));
}

/// Before a list changes: remembers it, so that it is emptied even if it comes to hold itself.
std::vector<Value>& change(Interpreter& interpreter, const Value& list) {
  interpreter.budget().allocate(sizeof(Value));
  interpreter.keep(list);
  return list.as_sequence().items;
}

void insert_at(Interpreter& interpreter, const Value& list, std::size_t at, const Value& item) {
  add_to_measure(list.as_sequence().measure, item.measure());
  std::vector<Value>& items = change(interpreter, list);
  interpreter.budget().work((items.size() - at) * sizeof(Value));
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), item);
}

Value append_method(Interpreter& interpreter, const Value& list, const Arguments& arguments) {
  const BoundArguments bound("append", arguments, {"object"}, 1);
  insert_at(interpreter, list, list.items().size(), *bound[0]);
  return Value();
}

Value insert_method(Interpreter& interpreter, const Value& list, const Arguments& arguments) {
  const BoundArguments bound("insert", arguments, {"index", "object"}, 2);
  const std::size_t at = clamp_range(bound.integer(0, 0), std::nullopt, list.items().size()).first;
  insert_at(interpreter, list, at, *bound[1]);
  return Value();
}

Value extend_method(Interpreter& interpreter, const Value& list, const Arguments& arguments) {
  const BoundArguments bound("extend", arguments, {"iterable"}, 1);
  for (const Value& item : iterate(interpreter, *bound[0])) {
    insert_at(interpreter, list, list.items().size(), item);
  }
  return Value();
}

Value pop_method(Interpreter& interpreter, const Value& list, const Arguments& arguments) {
  const BoundArguments bound("pop", arguments, {"index"});
  std::vector<Value>& items = change(interpreter, list);
  if (items.empty()) value_error("pop from empty list");
  const auto at = wrap_index(bound.integer(0, -1), items.size());
  if (!at) value_error("pop index out of range");
  interpreter.budget().work((items.size() - *at) * sizeof(Value));
  Value item = items[*at];
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(*at));
  return item;
}

Value remove_method(Interpreter& interpreter, const Value& list, const Arguments& arguments) {
  const BoundArguments bound("remove", arguments, {"value"}, 1);
  const std::size_t at = find_item(interpreter, list, *bound[0]);
  std::vector<Value>& items = change(interpreter, list);
  interpreter.budget().work(items.size() * sizeof(Value));
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
  return Value();
}

Value clear_list(Interpreter& interpreter, const Value& list, const Arguments& arguments) {
  const BoundArguments bound("clear", arguments, {});
  change(interpreter, list).clear();
  return Value();
}

Value reverse_method(Interpreter& interpreter, const Value& list, const Arguments& arguments) {
  const BoundArguments bound("reverse", arguments, {});
  std::vector<Value>& items = change(interpreter, list);
  interpreter.budget().work(items.size() * sizeof(Value));
  std::reverse(items.begin(), items.end());
  return Value();
}

Value sort_method(Interpreter& interpreter, const Value& list, const Arguments& arguments) {
  const BoundArguments bound("sort", arguments, {"reverse"});
  std::vector<Value>& items = change(interpreter, list);
  std::vector<Value> sorted = items;
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Value& a, const Value& b) {
    return bound.flag(0, false) ? less_than(interpreter, b, a) : less_than(interpreter, a, b);
  });
  items = std::move(sorted);
  return Value();
}

// --- dicts ---

Value get_method(Interpreter& interpreter, const Value& dict, const Arguments& arguments) {
  const BoundArguments bound("get", arguments, {"key", "default"}, 1);
  interpreter.charge_key(*bound[0]);
  if (const Value* found = dict.as_dict().find(*bound[0])) return *found;
  return bound[1] != nullptr ? *bound[1] : Value();
}

enum class View : std::uint8_t { kKeys, kValues, kItems };

template <View kView>
Value view_method(Interpreter& interpreter, const Value& dict, const Arguments& arguments) {
  const BoundArguments bound("this method", arguments, {});
  const auto& entries = dict.as_dict().entries();
  interpreter.budget().allocate(entries.size() * sizeof(Value) * (kView == View::kItems ? 4 : 1));
  std::vector<Value> items;
  items.reserve(entries.size());
  for (const auto& [key, value] : entries) {
    if (kView == View::kKeys) items.push_back(key);
    if (kView == View::kValues) items.push_back(value);
    if (kView == View::kItems) items.push_back(Value::tuple({key, value}));
  }
  constexpr SequenceType kType = kView == View::kKeys     ? SequenceType::kDictKeys
                                 : kView == View::kValues ? SequenceType::kDictValues
                                                          : SequenceType::kDictItems;
  return Value::sequence(kType, std::move(items));
}

Value copy_dict(Interpreter& interpreter, const Value& dict, const Arguments& arguments) {
  const BoundArguments bound("copy", arguments, {});
  interpreter.budget().allocate(dict.as_dict().size() * sizeof(Dict::Entry));
  return Value::dict(Dict(dict.as_dict()));
}

Dict& change_dict(Interpreter& interpreter, const Value& dict) {
  interpreter.budget().allocate(sizeof(Dict::Entry));
  interpreter.keep(dict);
  return dict.as_dict();
}

Value update_method(Interpreter& interpreter, const Value& dict, const Arguments& arguments) {
  if (arguments.positional.size() > 1) type_error("update expected at most 1 argument");
  Dict& target = change_dict(interpreter, dict);
  const auto set = [&](const Value& key, const Value& value) {
    interpreter.budget().allocate(sizeof(Dict::Entry));
    interpreter.charge_key(key);
    target.set(key, value);
  };
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    require_defined(source);
    if (!source.is_dict()) type_error("update() takes a dict");
    const std::vector<Dict::Entry> entries = source.as_dict().entries();
    for (const auto& [key, value] : entries) set(key, value);
  }
  for (const auto& [name, value] : arguments.keywords) set(Value::text(name), value);
  return Value();
}

Value pop_key(Interpreter& interpreter, const Value& dict, const Arguments& arguments) {
  const BoundArguments bound("pop", arguments, {"key", "default"}, 1);
  Dict& target = change_dict(interpreter, dict);
  interpreter.charge_key(*bound[0]);
  if (const Value* found = target.find(*bound[0])) {
    Value value = *found;
    interpreter.budget().work(target.size() * sizeof(Dict::Entry));
    target.erase(*bound[0]);
    return value;
  }
  if (bound[1] != nullptr) return *bound[1];
  value_error("there is no such key to pop");
}

Value popitem_method(Interpreter& interpreter, const Value& dict, const Arguments& arguments) {
  const BoundArguments bound("popitem", arguments, {});
  Dict& target = change_dict(interpreter, dict);
  if (target.size() == 0) value_error("popitem(): dictionary is empty");
  interpreter.budget().work(target.size() * sizeof(Dict::Entry));
  const Dict::Entry entry = target.entries().back();
  target.erase(entry.first);
  return Value::tuple({entry.first, entry.second});
}

Value setdefault_method(Interpreter& interpreter, const Value& dict, const Arguments& arguments) {
  const BoundArguments bound("setdefault", arguments, {"key", "default"}, 1);
  Dict& target = change_dict(interpreter, dict);
  interpreter.charge_key(*bound[0]);
  if (const Value* found = target.find(*bound[0])) return *found;
  Value value = bound[1] != nullptr ? *bound[1] : Value();
  target.set(*bound[0], value);
  return value;
}

Value clear_dict(Interpreter& interpreter, const Value& dict, const Arguments& arguments) {
  const BoundArguments bound("clear", arguments, {});
  change_dict(interpreter, dict).clear();
  return Value();
}

// As in Jinja 3.1.2's immutable sandbox, pop and clear of lists are not counted as changes.
constexpr std::array<NamedBuiltin, 11> kListMethods = {{
    {"index", index_method},
    {"count", count_method},
    {"copy", copy_list},
    {"pop", pop_method},
    {"clear", clear_list},
    {"append", append_method, true},
    {"insert", insert_method, true},
    {"extend", extend_method, true},
    {"remove", remove_method, true},
    {"reverse", reverse_method, true},
    {"sort", sort_method, true},
}};

constexpr std::array<NamedBuiltin, 10> kDictMethods = {{
    {"get", get_method},
    {"items", view_method<View::kItems>},
    {"keys", view_method<View::kKeys>},
    {"values", view_method<View::kValues>},
    {"copy", copy_dict},
    {"update", update_method, true},
    {"pop", pop_key, true},
    {"popitem", popitem_method, true},
    {"setdefault", setdefault_method, true},
    {"clear", clear_dict, true},
}};

}  // namespace

std::span<const NamedBuiltin> list_methods() {
  return kListMethods;
}
std::span<const NamedBuiltin> dict_methods() {
  return kDictMethods;
}

}  // namespace sluice::jinja
