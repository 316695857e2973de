// The last moments of a TCP connection; see Transport::finish().
#pragma once

#include <boost/beast/core/tcp_stream.hpp>

#include "web/transport/transport.hpp"

namespace sluice::web {

/// Ends the sending half, then reads into nowhere until the client closes, or for a short while.
void linger(boost::beast::tcp_stream& stream, IoHandler handler);

}  // namespace sluice::web
