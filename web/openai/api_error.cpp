#include "web/openai/api_error.hpp"

#include <utility>

#include "engine/base/json_writer.hpp"

namespace sluice::web::openai {
namespace {

std::string first_name(std::string_view sentence) {
  const std::size_t begin = sentence.find('`');
  if (begin == std::string_view::npos) return {};
  const std::size_t end = sentence.find('`', begin + 1);
  if (end == std::string_view::npos) return {};
  return std::string(sentence.substr(begin + 1, end - begin - 1));
}

void write_or_null(JsonWriter& json, std::string_view name, const std::string& text) {
  json.key(name);
  if (text.empty()) {
    json.null();
  } else {
    json.value(text);
  }
}

}  // namespace

ApiError invalid_request(std::string sentence) {
  ApiError error;
  error.param = first_name(sentence);
  error.message = std::move(sentence);
  return error;
}

ApiError from_event(const ErrorEvent& error) {
  ApiError result{.message = error.message, .code = error.code};
  if (error.code == "prompt_too_long") {
    result.code = "context_length_exceeded";
    result.param = "messages";
  } else if (error.code == "invalid_request" || error.code == "empty_prompt") {
    result.param = first_name(error.message);
  } else if (error.code == "queue_full") {
    result.status = 429;
    result.type = "rate_limit_error";
  } else {
    const bool later = error.code == "queue_timeout" || error.code == "shutting_down";
    result.status = later ? 503 : 500;
    result.type = "server_error";
  }
  return result;
}

ApiError shutting_down() {
  return from_event({0, "shutting_down", "The server is shutting down; try another one."});
}

std::string error_json(const ApiError& error) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.field("message", error.message).field("type", error.type);
  write_or_null(json, "param", error.param);
  write_or_null(json, "code", error.code);
  return json.end_object().end_object().take();
}

HttpResponse to_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_json(error);
  if (error.status == 429 || error.status == 503) response.headers = {{"Retry-After", "1"}};
  return response;
}

}  // namespace sluice::web::openai
