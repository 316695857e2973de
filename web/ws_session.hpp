// One WebSocket connection: frames in, streams' events out (docs/protocol.md).
#pragma once

#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>

#include "web/server_context.hpp"

namespace sluice::web {

/// Takes over a connection whose upgrade request has been read and checked.
void start_ws_session(std::shared_ptr<ServerContext> context, boost::beast::tcp_stream stream,
                      const boost::beast::http::request<boost::beast::http::string_body>& upgrade);

}  // namespace sluice::web
