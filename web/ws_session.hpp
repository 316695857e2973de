// One WebSocket connection: frames in, streams' events out (docs/protocol.md).
#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>

#include "web/server_context.hpp"
#include "web/transport/client_stream.hpp"

namespace sluice::web {

using UpgradeRequest = boost::beast::http::request<boost::beast::http::string_body>;

/// Takes over a connection whose upgrade request has been read and checked. `caller`: whose key it
/// has, none without keys.
void start_ws_session(std::shared_ptr<ServerContext> context, ClientStream stream,
                      const UpgradeRequest& upgrade, CallerPtr caller, std::string request_id);

/// Upgrades only to say that a key is needed, with close code 4401.
void refuse_ws_session(std::shared_ptr<ServerContext> context, ClientStream stream,
                       const UpgradeRequest& upgrade);

}  // namespace sluice::web
