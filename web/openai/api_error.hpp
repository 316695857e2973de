// Errors in the shape that OpenAI's clients expect.
#pragma once

#include <string>
#include <string_view>

#include "engine/stream/events.hpp"
#include "web/http_message.hpp"

namespace sluice::web::openai {

/// {"error":{"message","type","param","code"}} and the status that goes with it.
struct ApiError {
  int status = 400;
  std::string type = "invalid_request_error";
  std::string message{};
  std::string param{};  ///< the field at fault; empty is null
  std::string code{};   ///< empty is null
};

/// A request that can't be right. The field is the first name in backticks of the sentence.
ApiError invalid_request(std::string sentence);
/// How a stream's error looks here.
ApiError from_event(const ErrorEvent& error);
/// A stream that the server ended before its time.
ApiError shutting_down();

std::string error_json(const ApiError& error);
HttpResponse to_response(const ApiError& error);

}  // namespace sluice::web::openai
