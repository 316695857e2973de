// TLS over TCP, and the certificate for it.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "web/transport/transport.hpp"

namespace sluice::web {

/// A certificate with its key, and the rules for connections: TLS 1.2 or 1.3, with forward
/// secrecy and authenticated encryption only. Does not change once it is loaded.
class TlsCertificate;

/// `certificate`: PEM, with the chain behind it; `key`: PEM, without a passphrase. Throws
/// Error(kInvalidArgument) that says which file is wrong and why.
std::shared_ptr<TlsCertificate> load_certificate(const std::filesystem::path& certificate,
                                                 const std::filesystem::path& key);

/// Something about a certificate that is no error but will be: "" or a sentence.
std::string certificate_warning(const TlsCertificate& certificate);

/// Over an accepted socket, whose executor is a strand of its own. Connections keep the
/// certificate that they began with.
std::unique_ptr<Transport> make_tls_transport(boost::asio::ip::tcp::socket socket,
                                              std::shared_ptr<TlsCertificate> certificate);

}  // namespace sluice::web
