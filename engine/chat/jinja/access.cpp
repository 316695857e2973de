#include "engine/chat/jinja/access.hpp"

#include <algorithm>

#include "engine/chat/jinja/builtins.hpp"
#include "engine/chat/jinja/failure.hpp"
#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/python_format.hpp"
#include "engine/chat/jinja/text_tools.hpp"
#include "engine/chat/jinja/unicode.hpp"

namespace sluice::jinja {

namespace {

std::string type_description(const Value& object) {
  if (object.is_none()) return "None";
  if (object.is_namespace()) return "jinja2.utils.Namespace object";
  return object.type_name() + " object";
}

Value no_attribute(const Value& object, std::string_view name) {
  return Value::undefined(quoted(type_description(object)) + " has no attribute " + quoted(name));
}

Value no_element(Interpreter& interpreter, const Value& object, const Value& key) {
  if (key.is_text()) return no_attribute(object, key.bytes());
  TextBuilder out(interpreter.budget());
  if (key.is_number() || key.is_none()) append_repr(out, interpreter.budget(), key);
  return Value::undefined(type_description(object) + " has no element " +
                          (out.size() > 0 ? out.text().bytes : "of type " + key.type_name()));
}

Value unsafe(const Value& object, std::string_view name) {
  return Value::undefined("access to attribute " + quoted(name) + " of " +
                              quoted(object.type_name()) + " object is unsafe.",
                          true);
}

Value bind_method(const Value& object, const NamedBuiltin& method) {
  auto bound = std::make_shared<Callable>();
  bound->name = method.name;
  bound->measure.depth = 1;
  add_to_measure(bound->measure, object.measure());
  bound->call = [object, function = method.function](Interpreter& interpreter,
                                                     const Arguments& arguments) {
    return function(interpreter, object, arguments);
  };
  return Value::callable(std::move(bound));
}

/// What Python's getattr would find, as far as the sandbox shows it.
std::optional<Value> python_attribute(Interpreter& interpreter, const Value& object,
                                      std::string_view name) {
  if (name.starts_with("__") && name.ends_with("__")) return unsafe(object, name);
  if (object.is_namespace()) {
    const Value* value = object.as_namespace().find(name);
    return value != nullptr ? std::optional<Value>(*value) : std::nullopt;
  }
  if (object.is_object()) {
    Value result;
    if (object.as_object().attribute(interpreter, name, result)) return result;
    return std::nullopt;
  }
  const NamedBuiltin* method = find_method(object, name);
  if (method == nullptr) return std::nullopt;
  if (method->mutates && !interpreter.options().relaxed) return unsafe(object, name);
  return bind_method(object, *method);
}

std::optional<Value> text_at(Interpreter& interpreter, const Text& text, std::int64_t index) {
  interpreter.budget().work(text.bytes.size());
  const std::vector<std::size_t> offsets = code_point_offsets(text.bytes);
  const auto at = wrap_index(index, offsets.size() - 1);
  if (!at) return std::nullopt;
  return Value::text(sub_text(interpreter.budget(), text, offsets[*at], offsets[*at + 1]));
}

std::optional<Value> python_item(Interpreter& interpreter, const Value& object, const Value& key) {
  if (object.is_dict()) {
    interpreter.charge_key(key);
    const bool hashable = !key.is_dict() && !key.is_sequence(SequenceType::kList);
    const Value* found = hashable ? object.as_dict().find(key) : nullptr;
    return found != nullptr ? std::optional<Value>(*found) : std::nullopt;
  }
  if (!key.is_integral()) return std::nullopt;
  if (object.is_text()) return text_at(interpreter, object.as_text(), key.as_int());
  const bool indexed = object.is_sequence(SequenceType::kList) ||
                       object.is_sequence(SequenceType::kTuple) ||
                       object.is_sequence(SequenceType::kRange);
  if (!indexed) return std::nullopt;
  const auto at = wrap_index(key.as_int(), object.items().size());
  return at ? std::optional<Value>(object.items()[*at]) : std::nullopt;
}

}  // namespace

void require_defined(const Value& value) {
  if (!value.is_undefined()) return;
  const Undefined& undefined = value.as_undefined();
  throw Failure(undefined.unsafe ? FailureKind::kSecurity : FailureKind::kUndefined,
                undefined.message);
}

std::optional<std::size_t> wrap_index(std::int64_t index, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  return static_cast<std::size_t>(index);
}

std::pair<std::size_t, std::size_t> clamp_range(std::optional<std::int64_t> start,
                                                std::optional<std::int64_t> stop,
                                                std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  const auto clamp = [&](std::int64_t at) {
    if (at < 0) at = std::max<std::int64_t>(at + count, 0);
    return static_cast<std::size_t>(std::min(at, count));
  };
  const std::size_t begin = clamp(start.value_or(0));
  return {begin, std::max(begin, clamp(stop.value_or(count)))};
}

Value get_attribute(Interpreter& interpreter, const Value& object, std::string_view name) {
  require_defined(object);
  if (auto attribute = python_attribute(interpreter, object, name)) return std::move(*attribute);
  if (object.is_dict()) {
    if (const Value* item = object.as_dict().find(name)) return *item;
  }
  return no_attribute(object, name);
}

Value get_item(Interpreter& interpreter, const Value& object, const Value& key) {
  require_defined(object);
  if (auto item = python_item(interpreter, object, key)) return std::move(*item);
  if (key.is_text()) {
    if (auto attribute = python_attribute(interpreter, object, key.bytes())) {
      return std::move(*attribute);
    }
  }
  return no_element(interpreter, object, key);
}

namespace {

/// The indices that a slice picks, as Python's slice.indices() gives them.
struct SliceIndices {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::size_t count = 0;
};

SliceIndices slice_indices(const Value* start, const Value* stop, const Value* step,
                           std::size_t size) {
  const auto length = static_cast<std::int64_t>(size);
  SliceIndices result;
  if (step != nullptr && !step->is_none()) result.step = step->as_int();
  if (result.step == 0) value_error("slice step cannot be zero");
  // More than the whole length in one step is the same as the whole length.
  result.step = std::clamp(result.step, -length - 1, length + 1);
  const bool backwards = result.step < 0;
  const std::int64_t lowest = backwards ? -1 : 0;
  const std::int64_t highest = backwards ? length - 1 : length;
  const auto place = [&](const Value* part, std::int64_t otherwise) {
    if (part == nullptr || part->is_none()) return otherwise;
    std::int64_t at = part->as_int();
    if (at < 0) at = at < -length ? lowest : at + length;
    return std::clamp(at, lowest, highest);
  };
  result.start = place(start, backwards ? highest : lowest);
  const std::int64_t end = place(stop, backwards ? lowest : highest);
  const std::int64_t distance = backwards ? result.start - end : end - result.start;
  if (distance > 0) {
    const std::int64_t stride = backwards ? -result.step : result.step;
    result.count = static_cast<std::size_t>((distance + stride - 1) / stride);
  }
  return result;
}

TextPtr slice_text(Interpreter& interpreter, const Text& text, const Value* start,
                   const Value* stop, const Value* step) {
  Budget& budget = interpreter.budget();
  budget.work(text.bytes.size() * 2);
  const std::vector<std::size_t> offsets = code_point_offsets(text.bytes);
  const SliceIndices indices = slice_indices(start, stop, step, offsets.size() - 1);
  if (indices.step == 1) {
    const auto first = static_cast<std::size_t>(indices.start);
    return sub_text(budget, text, offsets[first], offsets[first + indices.count]);
  }
  TextBuilder out(budget);
  for (std::size_t i = 0; i < indices.count; ++i) {
    const auto at =
        static_cast<std::size_t>(indices.start + static_cast<std::int64_t>(i) * indices.step);
    out.append(text, offsets[at], offsets[at + 1]);
  }
  out.set_escaped(text.escaped);
  return out.take_shared();
}

}  // namespace

Value get_slice(Interpreter& interpreter, const Value& object, const Value* start,
                const Value* stop, const Value* step) {
  require_defined(object);
  if (object.is_dict()) type_error("unhashable type: 'slice'");
  const bool sliced = object.is_text() || object.is_sequence(SequenceType::kList) ||
                      object.is_sequence(SequenceType::kTuple) ||
                      object.is_sequence(SequenceType::kRange);
  if (!sliced) type_error("'" + object.type_name() + "' object is not subscriptable");
  for (const Value* part : {start, stop, step}) {
    if (part != nullptr && !part->is_none() && !part->is_integral()) {
      type_error("slice indices must be integers or None or have an __index__ method");
    }
  }
  if (object.is_text()) {
    return Value::text(slice_text(interpreter, object.as_text(), start, stop, step));
  }
  const Sequence& sequence = object.as_sequence();
  const SliceIndices indices = slice_indices(start, stop, step, sequence.items.size());
  std::vector<Value> items;
  interpreter.budget().allocate(indices.count * sizeof(Value));
  items.reserve(indices.count);
  for (std::size_t i = 0; i < indices.count; ++i) {
    items.push_back(sequence.items[static_cast<std::size_t>(
        indices.start + static_cast<std::int64_t>(i) * indices.step)]);
  }
  return Value::sequence(
      sequence.type == SequenceType::kTuple ? SequenceType::kTuple : SequenceType::kList,
      std::move(items));
}

Value get_path(Interpreter& interpreter, const Value& object, const Value& path) {
  if (path.is_none()) return object;
  if (!path.is_text()) return get_item(interpreter, object, path);
  Value value = object;
  const std::string_view names = path.bytes();
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('.', begin), names.size());
    const std::string_view part = names.substr(begin, end - begin);
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    const auto number = digits ? parse_integer(part, 10) : std::nullopt;
    value = get_item(interpreter, value, number ? *number : Value::text(part));
    begin = end + 1;
  }
  return value;
}

std::vector<Value> iterate(Interpreter& interpreter, const Value& value) {
  Budget& budget = interpreter.budget();
  std::vector<Value> items;
  if (value.is_sequence()) {
    Sequence& sequence = value.as_sequence();
    const std::size_t from = sequence.next;
    budget.allocate((sequence.items.size() - from) * sizeof(Value));
    items.assign(sequence.items.begin() + static_cast<std::ptrdiff_t>(from), sequence.items.end());
    if (sequence.type == SequenceType::kIterator) sequence.next = sequence.items.size();
  } else if (value.is_dict()) {
    const auto& entries = value.as_dict().entries();
    budget.allocate(entries.size() * sizeof(Value));
    items.reserve(entries.size());
    for (const auto& entry : entries) items.push_back(entry.first);
  } else if (value.is_text()) {
    const std::vector<std::size_t> offsets = code_point_offsets(value.bytes());
    budget.allocate(offsets.size() * (sizeof(Value) + sizeof(Text)));
    items.reserve(offsets.size() - 1);
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      items.push_back(Value::text(sub_text(budget, value.as_text(), offsets[i], offsets[i + 1])));
    }
  } else if (value.is_undefined() && !value.as_undefined().unsafe) {
    return items;
  } else {
    require_defined(value);
    type_error("'" + value.type_name() + "' object is not iterable");
  }
  return items;
}

bool is_iterable(const Value& value) {
  return value.is_sequence() || value.is_dict() || value.is_text() || value.is_undefined();
}

std::optional<std::size_t> length_of(Interpreter& interpreter, const Value& value) {
  if (value.is_text()) {
    interpreter.budget().work(value.bytes().size());
    return count_code_points(value.bytes());
  }
  if (value.is_sequence() && !value.is_sequence(SequenceType::kIterator)) {
    return value.items().size();
  }
  if (value.is_dict()) return value.as_dict().size();
  if (value.is_undefined()) return 0;
  return std::nullopt;
}

}  // namespace sluice::jinja
