// Filters on lists and other things with items.
#include <algorithm>
#include <array>
#include <numeric>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/arguments.hpp"
#include "engine/chat/jinja/builtins.hpp"
#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/operators.hpp"
#include "engine/chat/jinja/text_tools.hpp"
#include "engine/chat/jinja/unicode.hpp"

namespace sluice::jinja {

namespace {

Value iterator(std::vector<Value> items) {
  return Value::sequence(SequenceType::kIterator, std::move(items));
}

/// What sorting and grouping look at: texts without their case, unless it matters.
Value sort_key(Interpreter& interpreter, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_text()) return value;
  return Value::text(lower(interpreter.budget(), value.as_text()));
}

Value first_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("first", arguments, {});
  if (input.is_sequence()) {
    Sequence& sequence = input.as_sequence();
    if (sequence.next < sequence.items.size()) {
      const Value item = sequence.items[sequence.next];
      if (sequence.type == SequenceType::kIterator) ++sequence.next;
      return item;
    }
  } else {
    const std::vector<Value> items = iterate(interpreter, input);
    if (!items.empty()) return items.front();
  }
  return Value::undefined("No first item, sequence was empty.");
}

Value last_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("last", arguments, {});
  if (input.is_sequence(SequenceType::kIterator)) {
    type_error("'generator' object is not reversible");
  }
  const std::vector<Value> items = iterate(interpreter, input);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value length_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("length", arguments, {});
  const auto length = length_of(interpreter, input);
  if (!length) type_error("object of type '" + input.type_name() + "' has no len()");
  return Value::integer(static_cast<std::int64_t>(*length));
}

Value list_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("list", arguments, {});
  return Value::list(iterate(interpreter, input));
}

Value reverse_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("reverse", arguments, {});
  if (input.is_text()) {
    const Value step = Value::integer(-1);
    return get_slice(interpreter, input, nullptr, nullptr, &step);
  }
  std::vector<Value> items = iterate(interpreter, input);
  std::reverse(items.begin(), items.end());
  return iterator(std::move(items));
}

Value sort_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const std::vector<Value> items = iterate(interpreter, input);
  std::vector<Value> paths = {Value()};
  if (bound.value(2) != nullptr) {
    Text comma;
    comma.bytes = ",";
    paths = bound[2]->is_text()
                ? split(interpreter.budget(), bound[2]->as_text(), &comma, -1, false)
                : std::vector<Value>{*bound[2]};
  }
  std::vector<std::vector<Value>> keys;
  interpreter.budget().allocate(items.size() * paths.size() * sizeof(Value));
  for (const Value& item : items) {
    std::vector<Value>& key = keys.emplace_back();
    for (const Value& path : paths) {
      key.push_back(sort_key(interpreter, get_path(interpreter, item, path), bound.flag(1, false)));
    }
  }
  const auto before = [&](std::size_t a, std::size_t b) {
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (!equals(interpreter.budget(), keys[a][i], keys[b][i])) {
        return less_than(interpreter, keys[a][i], keys[b][i]);
      }
    }
    return false;
  };
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool reverse = bound.flag(0, false);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return reverse ? before(b, a) : before(a, b);
  });
  std::vector<Value> sorted;
  for (const std::size_t at : order) sorted.push_back(items[at]);
  return Value::list(std::move(sorted));
}

Value unique_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("unique", arguments, {"case_sensitive", "attribute"});
  Dict seen;
  std::vector<Value> items;
  for (const Value& item : iterate(interpreter, input)) {
    const Value value = bound.value(1) != nullptr ? get_path(interpreter, item, *bound[1]) : item;
    const Value key = sort_key(interpreter, value, bound.flag(0, false));
    interpreter.charge_key(key);
    interpreter.budget().allocate(sizeof(Dict::Entry));
    if (seen.find(key) != nullptr) continue;
    seen.set(key, Value());
    items.push_back(item);
  }
  return iterator(std::move(items));
}

template <bool kMax>
Value extreme_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("min", arguments, {"case_sensitive", "attribute"});
  const std::vector<Value> items = iterate(interpreter, input);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const auto key_of = [&](const Value& item) {
    const Value value = bound.value(1) != nullptr ? get_path(interpreter, item, *bound[1]) : item;
    return sort_key(interpreter, value, bound.flag(0, false));
  };
  std::size_t best = 0;
  Value best_key = key_of(items[0]);
  for (std::size_t i = 1; i < items.size(); ++i) {
    Value key = key_of(items[i]);
    if (kMax ? less_than(interpreter, best_key, key) : less_than(interpreter, key, best_key)) {
      best = i;
      best_key = std::move(key);
    }
  }
  return items[best];
}

Value sum_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("sum", arguments, {"attribute", "start"});
  Value total = bound[1] != nullptr ? *bound[1] : Value::integer(0);
  for (const Value& item : iterate(interpreter, input)) {
    const Value value = bound.value(0) != nullptr ? get_path(interpreter, item, *bound[0]) : item;
    total = apply_binary(interpreter, BinaryOp::kAdd, total, value);
  }
  return total;
}

/// `size` items each; the last one filled up.
Value batch_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("batch", arguments, {"linecount", "fill_with"}, 1);
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bound.integer(0, 1), 1));
  std::vector<Value> batches;
  std::vector<Value> current;
  for (Value& item : iterate(interpreter, input)) {
    if (current.size() == size) batches.push_back(Value::list(std::exchange(current, {})));
    current.push_back(std::move(item));
  }
  if (!current.empty()) {
    if (bound.value(1) != nullptr && current.size() < size) {
      interpreter.budget().allocate((size - current.size()) * sizeof(Value));
      current.resize(size, *bound[1]);
    }
    batches.push_back(Value::list(std::move(current)));
  }
  return iterator(std::move(batches));
}

/// `count` columns of about the same length.
Value slice_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("slice", arguments, {"slices", "fill_with"}, 1);
  const std::vector<Value> items = iterate(interpreter, input);
  const std::int64_t wanted = bound.integer(0, 1);
  if (wanted < 1) value_error("slice() needs at least one slice");
  const auto count = static_cast<std::size_t>(wanted);
  interpreter.budget().allocate(count * (sizeof(Value) + sizeof(Sequence)));
  const std::size_t each = items.size() / count;
  const std::size_t longer = items.size() % count;
  std::vector<Value> slices;
  auto at = items.begin();
  for (std::size_t i = 0; i < count; ++i) {
    const auto length = static_cast<std::ptrdiff_t>(each + (i < longer ? 1 : 0));
    std::vector<Value> slice(at, at + length);
    at += length;
    if (bound.value(1) != nullptr && i >= longer) slice.push_back(*bound[1]);
    slices.push_back(Value::list(std::move(slice)));
  }
  return iterator(std::move(slices));
}

Value items_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("items", arguments, {});
  if (input.is_undefined()) return iterator({});
  if (!input.is_dict()) type_error("Can only get item pairs from a mapping.");
  return iterator(
      iterate(interpreter, find_method(input, "items")->function(interpreter, input, {})));
}

Value dictsort_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  require_defined(input);
  if (!input.is_dict()) type_error("dictsort() needs a dict, not " + input.type_name());
  const bool by_value = bound[1] != nullptr && bound.text(1)->bytes == "value";
  if (bound[1] != nullptr && !by_value && bound.text(1)->bytes != "key") {
    value_error("You can only sort by either \"key\" or \"value\"");
  }
  const Value pairs = Value::list(
      iterate(interpreter, find_method(input, "items")->function(interpreter, input, {})));
  const Arguments sort_arguments{
      {Value::boolean(bound.flag(2, false)), Value::boolean(bound.flag(0, false)),
       Value::integer(by_value ? 1 : 0)},
      {}};
  return sort_filter(interpreter, pairs, sort_arguments);
}

constexpr std::array<NamedBuiltin, 15> kFilters = {{
    {"first", first_filter},
    {"last", last_filter},
    {"length", length_filter},
    {"count", length_filter},
    {"list", list_filter},
    {"reverse", reverse_filter},
    {"sort", sort_filter},
    {"unique", unique_filter},
    {"min", extreme_filter<false>},
    {"max", extreme_filter<true>},
    {"sum", sum_filter},
    {"batch", batch_filter},
    {"slice", slice_filter},
    {"items", items_filter},
    {"dictsort", dictsort_filter},
}};

}  // namespace

std::span<const NamedBuiltin> sequence_filters() {
  return kFilters;
}

}  // namespace sluice::jinja
