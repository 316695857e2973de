// One TCP connection that speaks HTTP/1.1, until it ends or becomes a WebSocket.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <memory>

#include "web/server_context.hpp"

namespace sluice::web {

/// Takes over an accepted socket, whose executor is a strand of its own.
void start_http_session(std::shared_ptr<ServerContext> context,
                        boost::asio::ip::tcp::socket socket);

/// Goes on with a connection on which a request has been answered elsewhere; `buffer` has what the
/// client has sent already.
void continue_http_session(std::shared_ptr<ServerContext> context, boost::beast::tcp_stream stream,
                           boost::beast::flat_buffer buffer);

/// Answers 503 to whatever comes, and ends: there are too many connections.
void refuse_connection(std::shared_ptr<ServerContext> context, boost::asio::ip::tcp::socket socket);

}  // namespace sluice::web
