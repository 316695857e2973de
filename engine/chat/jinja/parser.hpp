// Tokens to a tree.
#pragma once

#include <string_view>

#include "engine/chat/jinja/ast.hpp"

namespace sluice::jinja {

/// Largest template text that is looked at. The largest known one has 17 KB.
inline constexpr std::size_t kMaxTemplateBytes = std::size_t{4} << 20;

/// Throws SyntaxFailure. Filters and tests must exist, except where Jinja looks them up late:
/// inside `if` and conditional expressions, whose unused branches may name unknown ones.
Tree parse_template(std::string_view source);

}  // namespace sluice::jinja
