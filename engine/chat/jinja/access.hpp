// Looking into values: attributes, items, slices, iteration, length. The sandbox is here: a
// template sees exactly the attributes that these functions know.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/chat/jinja/value.hpp"

namespace sluice::jinja {

/// object.name: Python attributes first, then items. Undefined when there is neither.
Value get_attribute(Interpreter& interpreter, const Value& object, std::string_view name);
/// object[key]: items first, then Python attributes.
Value get_item(Interpreter& interpreter, const Value& object, const Value& key);
/// object[start:stop:step]; null stands for a part that is left out.
Value get_slice(Interpreter& interpreter, const Value& object, const Value* start,
                const Value* stop, const Value* step);

/// What `attribute=` of filters means: an integer, or names and integers joined with dots.
Value get_path(Interpreter& interpreter, const Value& object, const Value& path);

/// All items; throws Failure(kType) when the value cannot be iterated. Uses iterators up.
std::vector<Value> iterate(Interpreter& interpreter, const Value& value);
bool is_iterable(const Value& value);
/// len(value); nothing when it has none.
std::optional<std::size_t> length_of(Interpreter& interpreter, const Value& value);

/// Throws when `value` is undefined.
void require_defined(const Value& value);
/// A position counted from the end when negative, as Python does; nothing when outside.
std::optional<std::size_t> wrap_index(std::int64_t index, std::size_t size);
/// Clamps [start, stop) to `size`; what a method like find(sub, start, stop) means.
std::pair<std::size_t, std::size_t> clamp_range(std::optional<std::int64_t> start,
                                                std::optional<std::int64_t> stop, std::size_t size);

}  // namespace sluice::jinja
