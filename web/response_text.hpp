// HTTP/1.1 responses as bytes, for those who write their body piece by piece.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "web/http_message.hpp"

namespace sluice::web {

struct ResponseForm {
  bool keep_alive = true;
  bool chunked = false;        ///< the body comes in chunks
  std::size_t body_bytes = 0;  ///< otherwise, when the connection is kept
};

/// Status line and headers with the empty line behind them. A body that is neither chunked nor
/// of known length ends with the connection.
std::string response_head(const HttpResponse& response, const ResponseForm& form);

/// A part of a chunked body; not empty.
std::string chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace sluice::web
