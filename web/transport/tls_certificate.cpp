#include "web/transport/tls_certificate.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <fstream>
#include <iterator>
#include <string_view>

#include "engine/base/error.hpp"

namespace sluice::web {
namespace {

/// Of TLS 1.2; those of 1.3 are all good.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr int kSoonDays = 14;

Error fault(std::string_view what, const std::filesystem::path& path, std::string_view why) {
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("The TLS {} {} can't be used: {}.", what, path.string(), why));
}

std::string last_openssl_error() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "OpenSSL gives no reason" : reason;
}

/// Finds the mistakes that people make, for which OpenSSL's own words are of little help.
void check_pem(const std::filesystem::path& path, std::string_view what, std::string_view kind,
               std::string_view option) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw fault(what, path, "the file can't be opened; check the path and its rights");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (text.find(kind) == std::string::npos) {
    throw fault(
        what, path,
        fmt::format("it has no PEM block \"{}\"; {} takes a PEM file with one", kind, option));
  }
  if (text.find("ENCRYPTED") != std::string::npos) {
    throw fault(what, path,
                "the key is encrypted and a server can't ask for the passphrase; take it away with "
                "`openssl pkey -in KEY -out NEWKEY`");
  }
}

/// HTTP/1.1 is what is spoken here: a client that offers protocols, and not this one, is sent away
/// instead of being misunderstood (RFC 7301 section 3.2).
int select_protocol(SSL* /*ssl*/, const unsigned char** chosen, unsigned char* length,
                    const unsigned char* offered, unsigned int offered_length, void* /*unused*/) {
  static constexpr std::string_view kHttp = "http/1.1";
  for (unsigned int at = 0; at < offered_length; at += offered[at] + 1U) {
    const std::string_view name(reinterpret_cast<const char*>(offered + at + 1), offered[at]);
    if (at + offered[at] + 1U > offered_length || name != kHttp) continue;
    *chosen = offered + at + 1;
    *length = offered[at];
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

void set_rules(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(context, kCiphers);
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_alpn_select_cb(context, select_protocol, nullptr);
}

}  // namespace

std::shared_ptr<TlsCertificate> load_certificate(const std::filesystem::path& certificate,
                                                 const std::filesystem::path& key) {
  check_pem(certificate, "certificate", "BEGIN CERTIFICATE", "--tls-cert");
  check_pem(key, "key", "PRIVATE KEY", "--tls-key");
  auto loaded = std::make_shared<TlsCertificate>();
  SSL_CTX* const context = loaded->context.native_handle();
  set_rules(context);
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) {
    throw fault("certificate", certificate, last_openssl_error());
  }
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    const std::string reason = last_openssl_error();
    if (reason.find("mismatch") != std::string::npos) {
      throw fault("key", key,
                  fmt::format("it does not belong to the certificate {}", certificate.string()));
    }
    throw fault("key", key, reason);
  }
  if (SSL_CTX_check_private_key(context) != 1) throw fault("key", key, last_openssl_error());
  return loaded;
}

std::string certificate_warning(const TlsCertificate& certificate) {
  SSL_CTX* const context =
      const_cast<TlsCertificate&>(certificate).context.native_handle();  // NOLINT: it only reads
  const X509* const own = SSL_CTX_get0_certificate(context);
  if (own == nullptr) return {};
  int days = 0;
  int seconds = 0;
  if (ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(own)) != 1) return {};
  if (days < 0 || seconds < 0) return "The TLS certificate has expired; clients will refuse it.";
  if (X509_cmp_current_time(X509_get0_notBefore(own)) > 0) {
    return "The TLS certificate is not valid yet; clients will refuse it.";
  }
  if (days >= kSoonDays) return {};
  return fmt::format(
      "The TLS certificate expires in {} days; put a new one in its place and send "
      "SIGHUP.",
      days);
}

}  // namespace sluice::web
