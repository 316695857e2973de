// Plain TCP.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "web/transport/transport.hpp"

namespace sluice::web {

/// Over an accepted socket, whose executor is a strand of its own.
std::unique_ptr<Transport> make_tcp_transport(boost::asio::ip::tcp::socket socket);

}  // namespace sluice::web
