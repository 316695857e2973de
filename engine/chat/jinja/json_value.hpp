// JSON text to values.
#pragma once

#include <string_view>

#include "engine/chat/jinja/value.hpp"

namespace sluice::jinja {

/// Keeps the order of keys; of equal keys the last value counts; integers of any size stay exact.
/// Every string, keys included, is marked untrusted unless `untrusted` is false. Throws
/// Failure(kValue) that says where the text stops being JSON or what about it is too deep.
Value value_from_json(std::string_view json, bool untrusted = true);

}  // namespace sluice::jinja
