// A connection while it waits for the answer to one request of the chat or completions API.
//
// It takes the socket over from the HTTP session and gives it back afterwards, so that further
// requests of the client come over the same connection.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "web/openai/api_request.hpp"
#include "web/server_context.hpp"
#include "web/transport/client_stream.hpp"

namespace sluice::web::openai {

/// Where the answer goes.
struct AnswerLine {
  ClientStream stream;
  boost::beast::flat_buffer buffer;  ///< what the client has sent already of its next request
  unsigned version = 11;             ///< of HTTP; 10 knows no chunks
  bool keep_alive = true;
  std::vector<std::pair<std::string, std::string>> headers{};  ///< further ones of the response
  CallerPtr caller{};  ///< whose key it is; none without keys
  // For the log.
  std::string request_id{};
  std::string path{};
  std::chrono::steady_clock::time_point began{};  ///< when the request was there
};

/// Starts the streams and answers. When the connection can go on, an HTTP session takes it over
/// again.
void start_completion(std::shared_ptr<ServerContext> context, AnswerLine line, ApiRequest request);

/// The path of an endpoint that start_completion() serves.
bool is_completion_path(std::string_view path);

/// Reads the body for that path.
ParsedRequest parse_request(std::string_view path, std::string_view body,
                            const ServerContext& context);

}  // namespace sluice::web::openai
