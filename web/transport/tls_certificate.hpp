// What a TlsCertificate is; for tls_*.cpp alone, since OpenSSL's headers are large.
#pragma once

#include <boost/asio/ssl/context.hpp>

#include "web/transport/tls_transport.hpp"

namespace sluice::web {

class TlsCertificate {
 public:
  boost::asio::ssl::context context{boost::asio::ssl::context::tls_server};
};

}  // namespace sluice::web
