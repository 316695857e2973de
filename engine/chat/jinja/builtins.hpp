// What templates find ready: filters, tests, methods and global functions.
#pragma once

#include <span>
#include <string_view>

#include "engine/chat/jinja/value.hpp"

namespace sluice::jinja {

/// A filter or method: the input, then what stands in parentheses.
using Builtin = Value (*)(Interpreter&, const Value& input, const Arguments&);
using Predicate = bool (*)(Interpreter&, const Value& input, const Arguments&);

struct NamedBuiltin {
  std::string_view name;
  Builtin function;
  bool mutates = false;  ///< changes its input: refused unless RenderOptions::relaxed
};

/// Null when there is none. `relaxed` adds the ones of RenderOptions::relaxed.
Builtin find_filter(std::string_view name, bool relaxed);
bool filter_exists(std::string_view name, bool relaxed);
Predicate find_test(std::string_view name);
bool test_exists(std::string_view name);
/// Null when values of this type have no such method.
const NamedBuiltin* find_method(const Value& object, std::string_view name);
/// Undefined when there is none.
Value find_global(std::string_view name);

// The tables behind them, one per source file.
std::span<const NamedBuiltin> text_filters();
std::span<const NamedBuiltin> sequence_filters();
std::span<const NamedBuiltin> selection_filters();
std::span<const NamedBuiltin> value_filters();
std::span<const NamedBuiltin> text_methods();
std::span<const NamedBuiltin> text_search_methods();
std::span<const NamedBuiltin> list_methods();
std::span<const NamedBuiltin> dict_methods();

}  // namespace sluice::jinja
