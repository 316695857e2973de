#include "engine/chat/jinja/builtins.hpp"

#include <algorithm>

namespace sluice::jinja {

namespace {

const NamedBuiltin* find_in(std::span<const NamedBuiltin> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const NamedBuiltin& entry) { return entry.name == name; });
  return found != table.end() ? &*found : nullptr;
}

}  // namespace

Builtin find_filter(std::string_view name, bool relaxed) {
  if (name == "from_json" && !relaxed) return nullptr;
  for (const auto& table :
       {text_filters(), value_filters(), sequence_filters(), selection_filters()}) {
    if (const NamedBuiltin* filter = find_in(table, name)) return filter->function;
  }
  return nullptr;
}

bool filter_exists(std::string_view name, bool relaxed) {
  return find_filter(name, relaxed) != nullptr;
}

bool test_exists(std::string_view name) {
  return find_test(name) != nullptr;
}

const NamedBuiltin* find_method(const Value& object, std::string_view name) {
  if (object.is_text()) {
    const NamedBuiltin* method = find_in(text_methods(), name);
    return method != nullptr ? method : find_in(text_search_methods(), name);
  }
  if (object.is_dict()) return find_in(dict_methods(), name);
  if (object.is_sequence(SequenceType::kList)) return find_in(list_methods(), name);
  if (object.is_sequence(SequenceType::kTuple) || object.is_sequence(SequenceType::kRange)) {
    const bool shared = name == "index" || name == "count";
    return shared ? find_in(list_methods(), name) : nullptr;
  }
  return nullptr;
}

}  // namespace sluice::jinja
