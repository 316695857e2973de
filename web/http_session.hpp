// One connection that speaks HTTP/1.1, until it ends or becomes a WebSocket.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <memory>

#include "web/server_context.hpp"
#include "web/transport/client_stream.hpp"

namespace sluice::web {

/// Takes over a new connection.
void start_http_session(std::shared_ptr<ServerContext> context, ClientStream stream);

/// Goes on with a connection on which a request has been answered elsewhere; `buffer` has what the
/// client has sent already.
void continue_http_session(std::shared_ptr<ServerContext> context, ClientStream stream,
                           boost::beast::flat_buffer buffer);

/// Who has too many connections.
enum class Crowd { kServer, kAddress };
/// Answers 503 or 429 to whatever comes, and ends.
void refuse_connection(std::shared_ptr<ServerContext> context, ClientStream stream, Crowd crowd);

}  // namespace sluice::web
