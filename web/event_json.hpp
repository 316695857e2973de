// Writes the server's frames of the WebSocket protocol (docs/protocol.md). Valid JSON on one
// line, whatever bytes the texts hold.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "actors/stream_service.hpp"
#include "engine/stream/events.hpp"
#include "web/access/key_ring.hpp"

namespace sluice::web {

/// What `max_tokens` is when a request does not say, at this moment.
DefaultMaximum default_maximum(const StreamService& service);

/// The first frame of a connection.
std::string hello_json(const ServiceInfo& info, const DefaultMaximum& maximum,
                       std::chrono::milliseconds max_keep);

/// The bytes of a token, for alternatives that were not drawn.
using TokenText = std::function<std::string(TokenId)>;

/// What `accepted` says of a stream besides; each may be empty.
struct AcceptedNames {
  std::string stream_key{};  ///< for resuming it
  std::string request_id{};  ///< in the server's log
};

/// An event of the stream that the client calls `id`. Alternatives have their texts where
/// `token_text` is given.
std::string event_json(std::string_view id, const Event& event, const AcceptedNames& accepted = {},
                       const TokenText& token_text = {});

/// An error that belongs to no stream: it ends nothing.
std::string error_json(std::string_view code, std::string_view message);
/// The end of a stream that did not begin since its caller has used up its share: an `error` that
/// says when to try again.
std::string rate_refusal_json(std::string_view id, const RateRefusal& refusal);

/// Roughly the length of the frame that a token event becomes, without writing it.
std::size_t estimated_json_bytes(const TokenEvent& event);

}  // namespace sluice::web
