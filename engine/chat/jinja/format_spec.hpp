// One value in one field: width, alignment, sign, precision and number base.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/chat/jinja/value.hpp"

namespace sluice::jinja {

struct FormatSpec {
  std::string fill = " ";
  char align = '\0';  ///< < > ^ = or none: the type's own
  char sign = '-';    ///< - + or space
  bool alternate = false;
  bool comma = false;
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char type = '\0';
};

/// Throws Failure(kValue) for a specification that is not valid or asks for an absurd size.
FormatSpec parse_format_spec(std::string_view spec);
/// Formats a text or number; throws Failure(kValue) when the type code does not fit the value.
TextPtr format_with(Budget& budget, const Value& value, const FormatSpec& spec);

}  // namespace sluice::jinja
