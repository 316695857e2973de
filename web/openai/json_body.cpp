#include "web/openai/json_body.hpp"

namespace sluice::web::openai {
namespace {

constexpr std::size_t kMaxDepth = 32;  // tool descriptions nest

}  // namespace

std::optional<ApiError> parse_body(std::string_view text, JsonBody& body) {
  simdjson::dom::element root;
  simdjson::error_code error = body.parser.allocate(text.size() + 1, kMaxDepth);
  if (error == simdjson::SUCCESS) {
    error = body.parser.parse(text.data(), text.size(), /*realloc_if_needed=*/true).get(root);
  }
  if (error == simdjson::SUCCESS && root.get(body.object) == simdjson::SUCCESS) return std::nullopt;
  return ApiError{.message = "The body must be one JSON object in UTF-8.", .code = "invalid_json"};
}

}  // namespace sluice::web::openai
