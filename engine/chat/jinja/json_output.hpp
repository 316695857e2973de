// The `tojson` filter as chat templates know it: Python's json.dumps.
#pragma once

#include <optional>
#include <string>

#include "engine/chat/jinja/value.hpp"

namespace sluice::jinja {

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  ///< one level's white space; none: everything on one line
  std::string item_separator = ", ";  ///< with indent Python uses "," and a line break
  std::string key_separator = ": ";
  bool sort_keys = false;
};

/// Throws Failure(kType) for values that JSON cannot hold.
void append_json(TextBuilder& out, Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace sluice::jinja
