// The body of a request as one JSON object.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string_view>

#include "web/openai/api_error.hpp"

namespace sluice::web::openai {

struct JsonBody {
  simdjson::dom::parser parser;  ///< owns what `object` looks at
  simdjson::dom::object object;
};

std::optional<ApiError> parse_body(std::string_view text, JsonBody& body);

}  // namespace sluice::web::openai
