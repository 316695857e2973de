#include "web/http_session.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/span_body.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <optional>
#include <string>
#include <utility>

#include "web/gatekeeper.hpp"
#include "web/http_message.hpp"
#include "web/openai/completion_session.hpp"
#include "web/request_id.hpp"
#include "web/request_log.hpp"
#include "web/ws_session.hpp"

namespace sluice::web {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;

constexpr std::size_t kFirstRead = 4096;
constexpr std::size_t kMostBuffered = 256 << 10;  // read and not parsed yet

HttpRequest to_plain(const http::request_header<>& head, Target target, bool keep_alive,
                     std::string id) {
  HttpRequest plain;
  plain.id = std::move(id);
  plain.method = std::string(head.method_string());
  plain.path = std::move(target.path);
  plain.query = std::move(target.query);
  plain.version = head.version();
  plain.keep_alive = keep_alive;
  for (const auto& field : head) {
    plain.headers.emplace_back(lower_case(field.name_string()), std::string(field.value()));
  }
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

/// Everything runs on the connection's strand; one request after the other, so pipelined ones
/// wait in the read buffer and are answered in order.
class HttpSession final : public Connection, public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(std::shared_ptr<ServerContext> context, ClientStream stream,
              beast::flat_buffer buffer = beast::flat_buffer(kMostBuffered))
      : context_(std::move(context)), stream_(std::move(stream)), buffer_(std::move(buffer)) {
    ++context_->counters.connections;
  }

  ~HttpSession() override {
    context_->connections.remove(this);
    --context_->counters.connections;
  }

  // -- from any thread ------------------------------------------------------------------------
  void start() {
    post([this] { do_handshake(); });
  }
  void go_on() {
    post([this] { do_wait(); });
  }
  void refuse(HttpResponse response) {
    post([this, response = std::move(response)] {
      name_request({});
      respond(response, false, true);
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
  void do_handshake();
  void do_wait();
  void do_read_header();
  void do_read_some();
  void on_read_some();
  void on_header();
  void name_request(std::string_view offered);
  void log(int status, std::size_t bytes) const;
  bool wants_upgrade() const;
  void refuse_request(HttpResponse response);
  void do_read_body();
  void on_fault(error_code error);
  void handle();
  HttpResponse answer(const HttpRequest& request);
  void upgrade();
  bool complete(const HttpRequest& request);
  void respond(HttpResponse response, bool head_only, bool close);
  void on_write(error_code error, bool close);

  template <class Function>
  void post(Function function) {
    asio::post(stream_.get_executor(),
               [self = shared_from_this(), function = std::move(function)] { function(); });
  }

  const Limits& limits() const { return context_->options.limits; }

  const std::shared_ptr<ServerContext> context_;  // first: the io_context outlives the stream
  ClientStream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  bool in_body_ = false;
  std::size_t part_bytes_ = 0;  // read of the header, or of the body with its chunks
  HttpRequest request_;
  std::chrono::steady_clock::time_point began_;  // its header was there
  CallerPtr caller_;
  std::vector<std::pair<std::string, std::string>> common_headers_;  // of the response
  HttpResponse plain_response_;  // keeps the bytes that response_ points to
  std::optional<http::response<http::span_body<const char>>> response_;
  bool reading_ = false;
  bool last_request_ = false;
};

// -- reading ------------------------------------------------------------------------------------

void HttpSession::do_handshake() {
  reading_ = true;
  stream_->expires_after(limits().handshake_timeout);
  stream_->handshake(IoHandler([self = shared_from_this()](error_code error, std::size_t) {
    self->reading_ = false;
    if (error) return self->stream_.close();
    self->do_read_header();
  }));
}

/// Between two requests a client may be silent for longer than within one.
void HttpSession::do_wait() {
  if (buffer_.size() > 0) return do_read_header();
  reading_ = true;
  stream_->expires_after(limits().keep_alive_timeout);
  stream_.async_read_some(buffer_.prepare(kFirstRead),
                          [self = shared_from_this()](error_code error, std::size_t bytes) {
                            self->reading_ = false;
                            if (error) return self->stream_.close();
                            self->buffer_.commit(bytes);
                            self->do_read_header();
                          });
}

void HttpSession::do_read_header() {
  parser_.emplace();
  request_ = {};
  common_headers_.clear();
  parser_->header_limit(static_cast<std::uint32_t>(limits().max_header_bytes));
  parser_->body_limit(limits().max_body_bytes);
  in_body_ = false;
  part_bytes_ = 0;
  // One time-out for the whole of it: a client that sends a byte now and then gains nothing.
  stream_->expires_after(limits().header_timeout);
  do_read_some();
}

/// Piece by piece, since the parser's own limits hold for what it sees at once only: fields that
/// come in several pieces would add up without end, and so would the trailers of a chunked body.
void HttpSession::do_read_some() {
  reading_ = true;
  http::async_read_some(stream_, buffer_, *parser_,
                        [self = shared_from_this()](error_code error, std::size_t bytes) {
                          self->reading_ = false;
                          self->part_bytes_ += bytes;
                          if (error) return self->on_fault(error);
                          self->on_read_some();
                        });
}

void HttpSession::on_read_some() {
  // Chunks may be small, but not so small that they are mostly sizes.
  const std::size_t most = in_body_ ? 2 * limits().max_body_bytes + limits().max_header_bytes
                                    : limits().max_header_bytes;
  if (part_bytes_ > most) {
    return on_fault(in_body_ ? http::error::body_limit : http::error::header_limit);
  }
  if (in_body_ ? !parser_->is_done() : !parser_->is_header_done()) return do_read_some();
  if (in_body_) return handle();
  on_header();
}

void HttpSession::on_fault(error_code error) {
  if (request_.id.empty()) name_request({});
  if (auto response = answer_to_fault(error, limits())) {
    respond(std::move(*response), false, true);
  } else {
    stream_.close();
  }
}

/// A request that is not served is answered before its body is read.
void HttpSession::on_header() {
  ++context_->counters.http_requests;
  const auto& head = parser_->get();
  name_request(head["X-Request-Id"]);
  auto target = parse_target(head.target());
  if (!target) {
    respond(error_response(400, "bad_request", "The request's target is not a valid path."),
            head.method() == http::verb::head, true);
    return;
  }
  request_ = to_plain(head, std::move(*target), parser_->keep_alive(), std::move(request_.id));
  for (auto& header : common_headers(request_, stream_->encrypted(), *context_)) {
    common_headers_.push_back(std::move(header));
  }
  Admission admission = admit(request_, wants_upgrade(), *context_);
  caller_ = std::move(admission.caller);
  if (admission.refusal) {
    ++context_->counters.requests_refused;
    refuse_request(std::move(*admission.refusal));
    return;
  }
  if (!parser_->is_done()) return do_read_body();
  handle();
}

/// Also where there is no header yet: what can't be read is answered and logged as well.
void HttpSession::name_request(std::string_view offered) {
  request_.id = request_id_from(offered);
  began_ = std::chrono::steady_clock::now();
  common_headers_ = {{"X-Request-Id", request_.id}};
}

void HttpSession::log(int status, std::size_t bytes) const {
  ++context_->counters.http_responses(status);
  log_request({.request_id = request_.id,
               .method = request_.method,
               .path = request_.path,
               .status = status,
               .bytes = bytes,
               .duration = std::chrono::steady_clock::now() - began_,
               .key_name = caller_ ? caller_->name() : std::string()});
}

bool HttpSession::wants_upgrade() const {
  return request_.path == kStreamPath && beast::websocket::is_upgrade(parser_->get());
}

void HttpSession::refuse_request(HttpResponse response) {
  // A page can't see the status of an upgrade that fails, but the code of a WebSocket that closes.
  const bool is_page = !request_.header("origin").empty();
  if (response.status == 401 && wants_upgrade() && is_page) {
    refuse_ws_session(context_, std::move(stream_), parser_->get());
    return;
  }
  respond(std::move(response), request_.method == "HEAD",
          !request_.keep_alive || !parser_->is_done());
}

void HttpSession::do_read_body() {
  in_body_ = true;
  part_bytes_ = 0;
  parser_->eager(true);
  stream_->expires_after(limits().body_timeout);
  if (lower_case(request_.header("expect")) != "100-continue") return do_read_some();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(stream_, asio::buffer(kContinue),
                    [self = shared_from_this()](error_code error, std::size_t) {
                      if (error) return self->stream_.close();
                      self->do_read_some();
                    });
}

void HttpSession::handle() {
  request_.keep_alive = request_.keep_alive && !last_request_ && !context_->stopping;
  if (wants_upgrade()) {
    upgrade();
    return;
  }
  request_.body = std::move(parser_->get().body());
  if (complete(request_)) return;
  respond(answer(request_), request_.method == "HEAD", !request_.keep_alive);
}

/// Hands a good request of the chat or completions API over, and the connection with it.
bool HttpSession::complete(const HttpRequest& request) {
  if (request.method != "POST" || !openai::is_completion_path(request.path)) return false;
  auto parsed = openai::parse_request(request.path, request.body, *context_);
  if (const auto* error = std::get_if<openai::ApiError>(&parsed)) {
    respond(openai::to_response(*error), false, !request.keep_alive);
    return true;
  }
  const auto& good = std::get<openai::ApiRequest>(parsed);
  if (const auto refused = caller_ ? caller_->refuse_streams(good.num_choices()) : std::nullopt) {
    ++context_->counters.requests_refused;
    respond(too_many_requests(*refused), false, !request.keep_alive);
    return true;
  }
  openai::start_completion(context_,
                           {.stream = std::move(stream_),
                            .buffer = std::move(buffer_),
                            .version = request.version,
                            .keep_alive = request.keep_alive,
                            .headers = std::move(common_headers_),
                            .caller = std::move(caller_),
                            .request_id = request.id,
                            .path = request.path,
                            .began = began_},
                           std::get<openai::ApiRequest>(std::move(parsed)));
  return true;
}

HttpResponse HttpSession::answer(const HttpRequest& request) {
  if (request.path == kStreamPath) {
    HttpResponse response = error_response(426, "upgrade_required",
                                           "This endpoint speaks WebSocket; see docs/protocol.md.");
    response.headers = {{"Upgrade", "websocket"}, {"Connection", "Upgrade"}};
    return response;
  }
  return is_preflight(request) ? preflight_answer() : context_->router.handle(request);
}

// -- upgrade ------------------------------------------------------------------------------------

void HttpSession::upgrade() {
  const std::string_view protocols = request_.header("sec-websocket-protocol");
  if (!protocols.empty() && !lists(protocols, "sluice.v1")) {
    respond(error_response(400, "unknown_protocol",
                           "This endpoint speaks the WebSocket subprotocol \"sluice.v1\"; offer "
                           "that or none."),
            false, true);
    return;
  }
  if (context_->stopping) {
    HttpResponse response =
        error_response(503, "shutting_down", "The server is shutting down; try again later.");
    response.headers = {{"Retry-After", "1"}};
    respond(std::move(response), false, true);
    return;
  }
  log(101, 0);
  start_ws_session(context_, std::move(stream_), parser_->get(), std::move(caller_), request_.id);
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
  for (const auto& [name, value] : common_headers_) response.set(name, value);
  for (const auto& [name, value] : plain_response_.headers) response.set(name, value);
  if (close) response.set(http::field::connection, "close");
  if (has_body) response.content_length(bytes.size());
  if (has_body && !head_only) response.body() = {bytes.data(), bytes.size()};

  log(plain_response_.status, has_body ? bytes.size() : 0);
  stream_->expires_after(limits().response_timeout);
  http::async_write(stream_, response,
                    [self = shared_from_this(), close](error_code error, std::size_t) {
                      self->on_write(error, close);
                    });
}

void HttpSession::on_write(error_code error, bool close) {
  if (error) {
    stream_.close();
  } else if (close || last_request_) {
    stream_->finish(
        IoHandler([self = shared_from_this()](error_code, std::size_t) { self->stream_.close(); }));
  } else {
    do_wait();
  }
}

}  // namespace

void start_http_session(std::shared_ptr<ServerContext> context, ClientStream stream) {
  const auto session = std::make_shared<HttpSession>(context, std::move(stream));
  context->connections.add(session);
  session->start();
  if (context->closing) session->shut_down();
}

void continue_http_session(std::shared_ptr<ServerContext> context, ClientStream stream,
                           beast::flat_buffer buffer) {
  const auto session = std::make_shared<HttpSession>(context, std::move(stream), std::move(buffer));
  context->connections.add(session);
  session->go_on();
  if (context->closing) session->shut_down();
}

void refuse_connection(std::shared_ptr<ServerContext> context, ClientStream stream, Crowd crowd) {
  const bool whole_server = crowd == Crowd::kServer;
  HttpResponse response = error_response(
      whole_server ? 503 : 429, "too_many_connections",
      whole_server ? "The server has as many connections as it takes; try again later."
                   : "Your address has as many connections as it may; close some of them.");
  response.headers = {{"Retry-After", "1"}};
  const auto session = std::make_shared<HttpSession>(context, std::move(stream));
  context->connections.add(session);
  session->refuse(std::move(response));
}

}  // namespace sluice::web
