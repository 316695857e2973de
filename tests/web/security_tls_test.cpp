// TLS: a client of OpenSSL's against the server, with certificates made on the spot.
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "engine/base/error.hpp"
#include "tests/web/ws_support.hpp"
#include "web/transport/tls_transport.hpp"

using namespace sluice;
using namespace sluice::test;
using web::ServerOptions;

namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using asio::ip::tcp;

/// A folder with cert.pem and key.pem, removed at the end.
struct Files {
  Files() {
    fs::create_directories(folder);
    make("first");
  }
  ~Files() { fs::remove_all(folder); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  /// A new key and a certificate that it signs itself, for `name`.
  void make(const std::string& name, long valid_seconds = 100L * 86400) const {
    EVP_PKEY* const pair = EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
    X509* const made = X509_new();
    X509_set_version(made, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
    X509_gmtime_adj(X509_getm_notBefore(made), -7200);
    X509_gmtime_adj(X509_getm_notAfter(made), valid_seconds);
    X509_set_pubkey(made, pair);
    X509_NAME* const subject = X509_get_subject_name(made);
    X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(made, subject);
    X509_sign(made, pair, EVP_sha256());
    std::FILE* const cert_file = std::fopen(cert.c_str(), "w");
    PEM_write_X509(cert_file, made);
    std::fclose(cert_file);
    std::FILE* const key_file = std::fopen(key.c_str(), "w");
    PEM_write_PrivateKey(key_file, pair, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(key_file);
    X509_free(made);
    EVP_PKEY_free(pair);
  }

  const fs::path folder = fs::temp_directory_path() / ("sluice-tls-" + std::to_string(getpid()));
  const fs::path cert = folder / "cert.pem";
  const fs::path key = folder / "key.pem";
};

ServerOptions with_tls(const Files& files) {
  ServerOptions options = any_port();
  options.tls_certificate = files.cert;
  options.tls_key = files.key;
  return options;
}

class TlsClient {
 public:
  /// Throws boost::system::system_error when the handshake fails.
  explicit TlsClient(std::uint16_t port, int highest_version = 0) {
    SSL_set_min_proto_version(stream_.native_handle(), TLS1_VERSION);
    SSL_set_max_proto_version(stream_.native_handle(), highest_version);
    // So that an old version is refused by the server and not here.
    SSL_set_security_level(stream_.native_handle(), 0);
    stream_.next_layer().connect({asio::ip::make_address("127.0.0.1"), port});
    stream_.handshake(asio::ssl::stream_base::client);
  }

  /// Whom the server says that it is.
  std::string peer() {
    X509* const certificate = SSL_get1_peer_certificate(stream_.native_handle());
    char name[64] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name,
                              sizeof name);
    X509_free(certificate);
    return name;
  }
  void send(const std::string& bytes) { asio::write(stream_, asio::buffer(bytes)); }
  /// Until `end` has come; empty: until the server says that it was all.
  std::string receive(const std::string& end = {}) {
    std::string received;
    while (end.empty() || received.find(end) == std::string::npos) {
      char buffer[4096];
      boost::system::error_code error;
      const std::size_t n = stream_.read_some(asio::buffer(buffer), error);
      received.append(buffer, n);
      if (error == asio::error::eof && end.empty()) return received;
      if (error) throw std::runtime_error("cut off: " + error.message() + " after " + received);
    }
    return received;
  }

 private:
  asio::io_context io_;
  asio::ssl::context context_{asio::ssl::context::tls_client};
  asio::ssl::stream<tcp::socket> stream_{io_, context_};
};

std::string request(const std::string& line, const std::string& headers,
                    const std::string& body = {}) {
  const std::string length =
      body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return line + " HTTP/1.1\r\n" + headers + length + "\r\n" + body;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kLocal = "Host: localhost\r\n";
const std::string kClose = "Connection: close\r\n";

/// A text frame as a client sends it, with a mask of zeros.
std::string text_frame(const std::string& text) {
  return std::string("\x81") + static_cast<char>(0x80U | text.size()) + std::string(4, '\0') + text;
}

}  // namespace

TEST_CASE("security: https serves and says goodbye as tls does") {
  const Files files;
  const Running running(with_tls(files));
  CHECK(running.server.url().starts_with("https://127.0.0.1:"));
  TlsClient client(running.server.port());
  client.send(request("GET /health", kLocal));
  CHECK(has(client.receive("\"ok\"}"), "200 OK"));
  client.send(request("GET /v1/models", kLocal + kClose));
  CHECK(has(client.receive(), "\"stub\""));  // receive() wants TLS's own end, and not a cut line
}

TEST_CASE("security: answers of the completions api go over tls on a connection that stays") {
  const Files files;
  const Running running(with_tls(files));
  TlsClient client(running.server.port());
  for (const char* stream : {"true", "false", "true"}) {
    const std::string body = R"({"prompt":"count 300","stream":)" + std::string(stream) + "}";
    client.send(request("POST /v1/completions", kLocal, body));
    const bool streams = std::string(stream) == "true";
    const std::string answer = client.receive(streams ? "0\r\n\r\n" : "\"total_tokens\"");
    INFO(answer);
    CHECK(has(answer, "t299 "));
  }
}

TEST_CASE("security: who speaks plain http where tls is spoken is told so") {
  const Files files;
  const Running running(with_tls(files));
  const HttpAnswer answer = http_request(running.server.port(), "GET", "/health");
  CHECK(answer.status == 400);
  CHECK(has(answer.body, "This port speaks TLS"));
  // Neither TLS nor HTTP: no answer, and no harm.
  const RawClient garbage(running.server.port());
  garbage.send(std::string(200, '\x16'));
  garbage.receive();
  TlsClient client(running.server.port());
  client.send(request("GET /health", kLocal + kClose));
  CHECK(has(client.receive(), "200 OK"));
}

TEST_CASE("security: old versions of tls are refused") {
  const Files files;
  const Running running(with_tls(files));
  CHECK_THROWS(TlsClient(running.server.port(), TLS1_1_VERSION));
  CHECK_NOTHROW(TlsClient(running.server.port(), TLS1_2_VERSION));
  CHECK_NOTHROW(TlsClient(running.server.port(), TLS1_3_VERSION));
}

TEST_CASE("security: a handshake that stalls ends in time") {
  const Files files;
  ServerOptions options = with_tls(files);
  options.limits.handshake_timeout = std::chrono::milliseconds(80);
  const Running running(options);
  const RawClient silent(running.server.port());
  CHECK(silent.receive().empty());
  const RawClient half(running.server.port());
  half.send(std::string("\x16\x03\x01\x02\x00\x01", 6));
  CHECK(half.receive().empty());
}

TEST_CASE("security: browsers are told to come by tls again where a name is served") {
  const Files files;
  ServerOptions options = with_tls(files);
  options.allowed_hosts = {"chat.example"};
  const Running running(options);
  const auto head = [&](const std::string& host) {
    TlsClient client(running.server.port());
    client.send(request("GET /", "Host: " + host + "\r\n" + kClose));
    return client.receive();
  };
  CHECK(has(head("chat.example"), "Strict-Transport-Security: max-age=31536000\r\n"));
  // It would hold for all ports of the name: not for the name of every developer's machine.
  CHECK_FALSE(has(head("localhost"), "Strict-Transport-Security"));
  CHECK_FALSE(has(head("127.0.0.1"), "Strict-Transport-Security"));
}

TEST_CASE("security: over tls a page that came without it is a foreign one") {
  const Files files;
  const Running running(with_tls(files));
  const std::string host = "localhost:" + std::to_string(running.server.port());
  const auto from = [&](const std::string& scheme) {
    TlsClient client(running.server.port());
    client.send(request("GET /v1/models", "Host: " + host + "\r\nOrigin: " + scheme + "://" + host +
                                              "\r\n" + kClose));
    return client.receive();
  };
  CHECK(has(from("https"), "200 OK"));
  CHECK(has(from("http"), "403 Forbidden"));
}

TEST_CASE("security: a new certificate is taken without dropping a connection") {
  const Files files;
  Running running(with_tls(files));
  TlsClient old(running.server.port());
  CHECK(old.peer() == "first");
  old.send(request("GET /v1/stream", kLocal + "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                                              "Sec-WebSocket-Version: 13\r\n"
                                              "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"));
  CHECK(has(old.receive("\"hello\""), "101 Switching Protocols"));

  files.make("second");
  running.server.reload();
  CHECK(TlsClient(running.server.port()).peer() == "second");
  old.send(text_frame(R"({"type":"generate","id":"a","prompt":"count 9"})"));
  CHECK(has(old.receive("\"done\""), "t9 "));

  // A key that does not fit changes nothing.
  std::ofstream(files.key) << "no key at all";
  CHECK_THROWS_AS(running.server.reload(), Error);
  CHECK(TlsClient(running.server.port()).peer() == "second");
}

TEST_CASE("security: wrong certificates and keys are refused with the reason") {
  const Files files;
  StubService service;
  const auto fault = [&](const fs::path& cert, const fs::path& key) -> std::string {
    ServerOptions options = any_port();
    options.tls_certificate = cert;
    options.tls_key = key;
    try {
      const web::Server server(service, options);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "none";
  };
  CHECK(fault(files.cert, files.key) == "none");
  CHECK_THAT(fault(files.cert, {}), Catch::Contains("both --tls-cert and --tls-key"));
  CHECK_THAT(fault({}, files.key), Catch::Contains("both --tls-cert and --tls-key"));
  CHECK_THAT(fault("/no/cert.pem", files.key), Catch::Contains("/no/cert.pem can't be used: the "
                                                               "file can't be opened"));
  CHECK_THAT(fault(files.key, files.cert), Catch::Contains("no PEM block \"BEGIN CERTIFICATE\""));
  CHECK_THAT(fault(files.cert, files.cert), Catch::Contains("no PEM block \"PRIVATE KEY\""));

  const fs::path other = files.folder / "other.pem";
  fs::copy_file(files.key, other);
  files.make("second");
  CHECK_THAT(fault(files.cert, other), Catch::Contains("does not belong to the certificate"));
  std::ofstream(other) << "-----BEGIN ENCRYPTED PRIVATE KEY-----\n";
  CHECK_THAT(fault(files.cert, other), Catch::Contains("the key is encrypted"));
  std::ofstream(other) << "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  CHECK_THAT(fault(other, files.key), Catch::StartsWith("The TLS certificate"));
}

TEST_CASE("security: a certificate that ends soon is warned of") {
  const Files files;
  const auto warning = [&] {
    return web::certificate_warning(*web::load_certificate(files.cert, files.key));
  };
  CHECK(warning().empty());
  files.make("soon", 3L * 86400 + 60);
  CHECK(warning() ==
        "The TLS certificate expires in 3 days; put a new one in its place and send SIGHUP.");
  files.make("late", -3600);
  CHECK(warning() == "The TLS certificate has expired; clients will refuse it.");
}
