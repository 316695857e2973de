#include "web/http_session.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/span_body.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <optional>
#include <string>
#include <utility>

#include "web/endpoints.hpp"
#include "web/http_message.hpp"
#include "web/openai/completion_session.hpp"
#include "web/ws_session.hpp"

namespace sluice::web {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using BeastRequest = http::request<http::string_body>;

constexpr std::string_view kStreamPath = "/v1/stream";
constexpr std::chrono::seconds kLingerTime{2};
constexpr std::size_t kLingerBytes = 1 << 20;

/// Takes the body away.
HttpRequest to_plain(BeastRequest& request, Target target) {
  HttpRequest plain;
  plain.method = std::string(request.method_string());
  plain.path = std::move(target.path);
  plain.query = std::move(target.query);
  for (const auto& field : request) {
    plain.headers.emplace_back(lower_case(field.name_string()), std::string(field.value()));
  }
  plain.body = std::move(request.body());
  return plain;
}

/// What a request that could not be read deserves; empty: nobody is there to be answered.
std::optional<HttpResponse> answer_to_fault(error_code error, const Limits& limits) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return error_response(
        431, "headers_too_large",
        fmt::format("The request's headers exceed {} bytes.", limits.max_header_bytes));
  }
  if (error == http::error::body_limit) {
    return error_response(
        413, "body_too_large",
        fmt::format("The request's body exceeds {} bytes.", limits.max_body_bytes));
  }
  const bool gone = error == http::error::end_of_stream || error == http::error::partial_message;
  if (gone || error.category() != make_error_code(http::error::bad_method).category()) {
    return std::nullopt;  // closed, reset or timed out
  }
  return error_response(400, "bad_request",
                        fmt::format("The request is not valid HTTP/1.1: {}.", error.message()));
}

/// A browser asks whether a page of another (configured) origin may send a request.
bool is_preflight(const HttpRequest& request) {
  return request.method == "OPTIONS" && !request.header("origin").empty() &&
         !request.header("access-control-request-method").empty();
}

HttpResponse preflight_answer() {
  HttpResponse response;
  response.status = 204;
  response.headers = {{"Access-Control-Allow-Methods", "GET, POST"},
                      {"Access-Control-Allow-Headers", "authorization, content-type"},
                      {"Access-Control-Max-Age", "600"}};
  return response;
}

/// Everything runs on the connection's strand; one request after the other, so pipelined ones
/// wait in the read buffer and are answered in order.
class HttpSession final : public Connection, public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(std::shared_ptr<ServerContext> context, beast::tcp_stream stream,
              beast::flat_buffer buffer = {})
      : context_(std::move(context)), stream_(std::move(stream)), buffer_(std::move(buffer)) {
    ++context_->counters.connections;
  }

  ~HttpSession() override {
    context_->connections.remove(this);
    --context_->counters.connections;
  }

  // -- from any thread ------------------------------------------------------------------------
  void start() {
    post([this] { do_read(); });
  }
  void refuse() {
    post([this] {
      respond(error_response(503, "too_many_connections",
                             "The server has as many connections as it takes; try again later."),
              false, true);
    });
  }
  void shut_down() override {
    post([this] {
      last_request_ = true;
      if (reading_) stream_.close();
    });
  }
  void abort() override {
    post([this] { stream_.close(); });
  }

 private:
  void do_read();
  void on_read(error_code error);
  void handle(BeastRequest request);
  HttpResponse answer(const HttpRequest& request, unsigned version);
  void allow_origin(const HttpRequest& request, HttpResponse& response) const;
  std::optional<HttpResponse> refusal(const HttpRequest& request, unsigned version);
  void upgrade(const BeastRequest& request, const HttpRequest& plain);
  bool complete(const HttpRequest& request, unsigned version, bool keep_alive);
  void respond(HttpResponse response, bool head_only, bool close);
  void on_write(error_code error, bool close);
  void do_linger();

  template <class Function>
  void post(Function function) {
    asio::post(stream_.get_executor(),
               [self = shared_from_this(), function = std::move(function)] { function(); });
  }

  const Limits& limits() const { return context_->options.limits; }

  const std::shared_ptr<ServerContext> context_;  // first: the io_context outlives the stream
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  HttpResponse plain_response_;  // keeps the bytes that response_ points to
  std::optional<http::response<http::span_body<const char>>> response_;
  std::array<char, 4096> waste_{};
  std::size_t lingered_bytes_ = 0;
  bool reading_ = false;
  bool last_request_ = false;
};

// -- reading ------------------------------------------------------------------------------------

void HttpSession::do_read() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits().max_header_bytes));
  parser_->body_limit(limits().max_body_bytes);
  // One time-out for the whole request: a client that sends a byte now and then gains nothing.
  stream_.expires_after(limits().request_timeout);
  reading_ = true;
  http::async_read(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](error_code error, std::size_t) { self->on_read(error); });
}

void HttpSession::on_read(error_code error) {
  reading_ = false;
  if (!error) {
    ++context_->counters.http_requests;
    handle(parser_->release());
    return;
  }
  if (auto response = answer_to_fault(error, limits())) {
    respond(std::move(*response), false, true);
  } else {
    stream_.close();
  }
}

void HttpSession::handle(BeastRequest request) {
  const bool keep_alive = request.keep_alive() && !last_request_;
  const bool head_only = request.method() == http::verb::head;
  const unsigned version = request.version();
  auto target = parse_target(request.target());
  if (!target) {
    respond(error_response(400, "bad_request", "The request's target is not a valid path."),
            head_only, true);
    return;
  }
  const bool wants_upgrade = beast::websocket::is_upgrade(request);
  const HttpRequest plain = to_plain(request, std::move(*target));
  if (plain.path == kStreamPath && wants_upgrade && !refusal(plain, version)) {
    upgrade(request, plain);
    return;
  }
  if (complete(plain, version, keep_alive)) return;
  respond(answer(plain, version), head_only, !keep_alive);
}

/// Hands a good request of the chat or completions API over, and the connection with it.
bool HttpSession::complete(const HttpRequest& request, unsigned version, bool keep_alive) {
  if (request.method != "POST" || !openai::is_completion_path(request.path)) return false;
  if (refusal(request, version)) return false;  // answered as everywhere
  auto parsed = openai::parse_request(request.path, request.body, *context_);
  if (const auto* error = std::get_if<openai::ApiError>(&parsed)) {
    HttpResponse response = openai::to_response(*error);
    allow_origin(request, response);
    respond(std::move(response), false, !keep_alive);
    return true;
  }
  HttpResponse allowed;
  allow_origin(request, allowed);
  openai::start_completion(context_,
                           {.stream = std::move(stream_),
                            .buffer = std::move(buffer_),
                            .version = version,
                            .keep_alive = keep_alive,
                            .headers = std::move(allowed.headers)},
                           std::get<openai::ApiRequest>(std::move(parsed)));
  return true;
}

void HttpSession::allow_origin(const HttpRequest& request, HttpResponse& response) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !context_->origins->is_configured(origin)) return;
  response.headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
  response.headers.emplace_back("Vary", "Origin");
}

HttpResponse HttpSession::answer(const HttpRequest& request, unsigned version) {
  if (auto refused = refusal(request, version)) {
    ++context_->counters.requests_refused;
    return std::move(*refused);
  }
  if (request.path == kStreamPath) {
    HttpResponse response = error_response(426, "upgrade_required",
                                           "This endpoint speaks WebSocket; see docs/protocol.md.");
    response.headers = {{"Upgrade", "websocket"}, {"Connection", "Upgrade"}};
    return response;
  }
  HttpResponse response =
      is_preflight(request) ? preflight_answer() : context_->router.handle(request);
  allow_origin(request, response);
  return response;
}

std::optional<HttpResponse> HttpSession::refusal(const HttpRequest& request, unsigned version) {
  const std::size_t hosts = request.count("host");
  if (hosts > 1 || (hosts == 0 && version >= 11) || request.count("origin") > 1) {
    return error_response(400, "bad_request",
                          "The request needs one Host header, and one Origin header at most.");
  }
  if (is_probe(request.path)) return std::nullopt;
  const std::string why =
      context_->origins->refusal(request.header("host"), request.header("origin"));
  if (why.empty()) return std::nullopt;
  return error_response(403, "forbidden", why);
}

// -- upgrade ------------------------------------------------------------------------------------

bool offers(std::string_view list, std::string_view protocol) {
  for (const auto& token : http::token_list(list)) {
    if (token == protocol) return true;
  }
  return false;
}

void HttpSession::upgrade(const BeastRequest& request, const HttpRequest& plain) {
  const std::string_view protocols = plain.header("sec-websocket-protocol");
  if (!protocols.empty() && !offers(protocols, "sluice.v1")) {
    respond(error_response(400, "unknown_protocol",
                           "This endpoint speaks the WebSocket subprotocol \"sluice.v1\"; offer "
                           "that or none."),
            false, true);
    return;
  }
  if (context_->stopping) {
    respond(error_response(503, "shutting_down", "The server is shutting down; try again later."),
            false, true);
    return;
  }
  start_ws_session(context_, std::move(stream_), request);
}

// -- writing ------------------------------------------------------------------------------------

void HttpSession::respond(HttpResponse plain, bool head_only, bool close) {
  plain_response_ = std::move(plain);
  close = close || plain_response_.close || last_request_;
  const std::string_view bytes = plain_response_.bytes();
  const bool has_body = plain_response_.status != 304 && plain_response_.status != 204;

  auto& response = response_.emplace();
  response.version(11);
  response.result(static_cast<unsigned>(plain_response_.status));
  response.set(http::field::server, "sluice");
  for (const auto& [name, value] : security_headers()) response.set(name, value);
  if (has_body) response.set(http::field::content_type, plain_response_.content_type);
  for (const auto& [name, value] : plain_response_.headers) response.set(name, value);
  if (close) response.set(http::field::connection, "close");
  if (has_body) response.content_length(bytes.size());
  if (has_body && !head_only) response.body() = {bytes.data(), bytes.size()};

  stream_.expires_after(limits().response_timeout);
  http::async_write(stream_, response,
                    [self = shared_from_this(), close](error_code error, std::size_t) {
                      self->on_write(error, close);
                    });
}

void HttpSession::on_write(error_code error, bool close) {
  if (error) {
    stream_.close();
  } else if (close || last_request_) {
    error_code ignored;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    stream_.expires_after(kLingerTime);
    do_linger();
  } else {
    do_read();
  }
}

/// Closing with unread input makes the kernel send a reset, which can overtake the answer. So
/// read on for a short while until the client closes.
void HttpSession::do_linger() {
  stream_.async_read_some(asio::buffer(waste_),
                          [self = shared_from_this()](error_code error, std::size_t bytes) {
                            self->lingered_bytes_ += bytes;
                            if (error || self->lingered_bytes_ > kLingerBytes) {
                              self->stream_.close();
                            } else {
                              self->do_linger();
                            }
                          });
}

}  // namespace

void start_http_session(std::shared_ptr<ServerContext> context, asio::ip::tcp::socket socket) {
  continue_http_session(std::move(context), beast::tcp_stream(std::move(socket)), {});
}

void continue_http_session(std::shared_ptr<ServerContext> context, beast::tcp_stream stream,
                           beast::flat_buffer buffer) {
  const auto session = std::make_shared<HttpSession>(context, std::move(stream), std::move(buffer));
  context->connections.add(session);
  session->start();
  if (context->stopping) session->shut_down();
}

void refuse_connection(std::shared_ptr<ServerContext> context, asio::ip::tcp::socket socket) {
  ++context->counters.requests_refused;
  const auto session = std::make_shared<HttpSession>(context, beast::tcp_stream(std::move(socket)));
  context->connections.add(session);
  session->refuse();
}

}  // namespace sluice::web
