#include "web/ws_session.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/base/json_writer.hpp"
#include "web/event_json.hpp"
#include "web/protocol.hpp"
#include "web/stats_json.hpp"
#include "web/web_log.hpp"

namespace sluice::web {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using boost::system::error_code;

constexpr auto kUnauthorized =
    static_cast<websocket::close_code>(4401);  // of the codes that applications define

/// Everything runs on the connection's strand but shut_down(), abort(), on_news() and
/// on_stats(), which only post to it. Each pending operation holds a reference, so that the stream
/// is never destroyed with a read, write or close in flight.
class WsSession final : public Connection,
                        public EventSink,
                        public StatsSink,
                        public std::enable_shared_from_this<WsSession> {
 public:
  WsSession(std::shared_ptr<ServerContext> context, ClientStream stream, CallerPtr caller,
            std::string request_id)
      : context_(std::move(context)),
        caller_(std::move(caller)),
        request_id_(std::move(request_id)),
        ws_(std::move(stream)),
        stall_timer_(ws_.get_executor()),
        close_timer_(ws_.get_executor()) {
    ++context_->counters.connections;
    ++context_->counters.websockets;
  }

  ~WsSession() override {
    leave_streams();  // usually done by disconnect()
    stop_watching();
    --context_->counters.connections;
    --context_->counters.websockets;
    context_->connections.remove(this);
  }

  enum class Welcome { kYes, kNo };
  void start(const UpgradeRequest& upgrade, Welcome welcome);

  // -- from any thread ------------------------------------------------------------------------
  void shut_down() override {
    post([this] { begin_close(websocket::close_code::going_away, "the server is shutting down"); });
  }
  void abort() override {
    post([this] { disconnect(); });
  }
  void check_key() override {
    post([this] {
      if (caller_ && caller_->revoked()) begin_close(kUnauthorized, "the key is no longer valid");
    });
  }
  void on_stats(StatsPtr stats) override {
    post([this, stats = std::move(stats)]() mutable {
      if (!watching_ || state_ != State::kOpen) return;
      stats_ = std::move(stats);  // what a slow client has not read yet is skipped
      do_write();
    });
  }
  void on_news(ViewerId viewer) override {
    post([this, viewer] {
      ready_.push_back(viewer);
      do_write();
    });
  }

 private:
  enum class State { kOpen, kClosing, kClosed };

  /// One text frame, and what the hub may be told when it has been written.
  struct Frame {
    std::string text;
    ViewerId viewer = 0;       // 0: belongs to no stream
    std::uint64_t number = 0;  // of the last event in it
    bool terminal = false;     // the stream's last frame
  };

  // -- reading --------------------------------------------------------------------------------
  void do_read();
  void on_read(error_code error);
  void handle_frame(std::string_view text);
  void handle(GenerateMessage message);
  void handle(const ResumeMessage& message);
  void handle(const SteerMessage& message);
  void handle(ChangeMessage message);
  void handle(const StatsMessage& message);
  void handle(const ProtocolError& error);
  bool may_begin(const std::string& id);
  void refuse(std::string_view id, const std::string& code, const std::string& message);

  // -- writing --------------------------------------------------------------------------------
  void queue_text(std::string text);
  std::optional<Frame> next_frame();
  std::optional<Frame> next_frame_of(ViewerId viewer);
  AcceptedNames names_of(ViewerId viewer) const;
  void do_write();
  void on_write(error_code error);
  std::string stats_text(const StatsSnapshot& stats) const;
  void count_queued_bytes();

  // -- ending ---------------------------------------------------------------------------------
  void begin_close(websocket::close_code code, const char* reason);
  void do_close();
  void drop(const char* why);
  void disconnect();
  void leave_streams();
  void stop_watching();
  void clear_queue();

  template <class Function>
  void post(Function function) {
    asio::post(ws_.get_executor(), [self = shared_from_this(),
                                    function = std::move(function)]() mutable { function(); });
  }

  const Limits& limits() const { return context_->options.limits; }

  const std::shared_ptr<ServerContext> context_;  // first: the io_context outlives the stream
  const CallerPtr caller_;                        // whose key it has
  const std::string request_id_;                  // of the upgrade
  std::uint64_t last_stream_ = 0;                 // streams have its id and a number
  websocket::stream<ClientStream> ws_;
  asio::steady_timer stall_timer_;
  asio::steady_timer close_timer_;
  beast::flat_buffer read_buffer_;
  State state_ = State::kOpen;
  bool accepted_ = false;  // the upgrade is answered

  std::deque<std::string> texts_;  // what belongs to no stream goes first
  std::size_t text_bytes_ = 0;
  std::deque<ViewerId> ready_;  // viewers with something to take, each once; served in turns
  std::optional<Frame> writing_;
  std::optional<StatsMessage> watching_;  // set while the client follows the machine
  StatsPtr stats_;                        // to be written
  std::size_t counted_bytes_ = 0;         // what this session has added to the gauge
  websocket::close_reason close_reason_;

  std::unordered_map<std::string, ViewerId> viewers_;  // by the client's id of the stream
  std::unordered_map<ViewerId, std::string> ids_;      // until the terminal event is written
};

// -- start --------------------------------------------------------------------------------------

bool offers_protocol(const UpgradeRequest& upgrade) {
  return !upgrade[http::field::sec_websocket_protocol].empty();
}

void WsSession::start(const UpgradeRequest& upgrade, Welcome welcome) {
  ws_.next_layer()->expires_never();  // the WebSocket stream has its own time-outs
  ws_.next_layer()->set_send_buffer(limits().send_buffer_bytes);

  websocket::stream_base::timeout timeouts{};
  timeouts.handshake_timeout = limits().handshake_timeout;
  timeouts.idle_timeout = limits().idle_timeout;
  timeouts.keep_alive_pings = true;
  ws_.set_option(timeouts);
  const bool select_protocol = offers_protocol(upgrade);
  ws_.set_option(websocket::stream_base::decorator(
      [select_protocol, id = request_id_](websocket::response_type& response) {
        response.set(http::field::server, "sluice");
        if (!id.empty()) response.set("X-Request-Id", id);
        if (select_protocol) response.set(http::field::sec_websocket_protocol, "sluice.v1");
      }));
  ws_.read_message_max(limits().max_frame_bytes);
  ws_.auto_fragment(false);
  ws_.text(true);

  ws_.async_accept(upgrade, [self = shared_from_this(), welcome](error_code error) {
    if (error) {
      self->disconnect();
      return;
    }
    self->accepted_ = true;
    if (welcome == Welcome::kNo) {
      self->do_read();
      self->begin_close(kUnauthorized, "this server needs a key that it knows");
      return;
    }
    self->queue_text(hello_json(self->context_->service.info(),
                                default_maximum(self->context_->service), self->limits().max_keep));
    self->do_read();
    self->do_write();
    if (self->context_->closing) self->shut_down();
    self->check_key();  // it may have been revoked in between
  });
}

// -- reading ------------------------------------------------------------------------------------

void WsSession::do_read() {
  ws_.async_read(read_buffer_, [self = shared_from_this()](error_code error, std::size_t) {
    self->on_read(error);
  });
}

void WsSession::on_read(error_code error) {
  if (error) {
    // Beast has answered a close frame, or sent 1002, 1007 or 1009, by itself.
    disconnect();
    return;
  }
  ++context_->counters.frames_received;
  if (state_ == State::kOpen) {
    if (ws_.got_text()) {
      const auto data = read_buffer_.cdata();
      handle_frame({static_cast<const char*>(data.data()), data.size()});
    } else {
      queue_text(error_json("binary_frame", "Send text frames; binary ones are not understood."));
    }
  }
  read_buffer_.consume(read_buffer_.size());
  do_read();
}

void WsSession::handle_frame(std::string_view text) {
  ParsedFrame frame =
      parse_frame(text, {context_->service.info().default_sampling, limits().max_keep});
  std::visit([this](auto&& message) { handle(std::forward<decltype(message)>(message)); },
             std::move(frame));
}

void WsSession::handle(GenerateMessage message) {
  if (!may_begin(message.id)) return;
  if (caller_) {
    auto refused = caller_->refuse_streams(1);
    if (!refused) refused = caller_->take_request();
    if (refused) return queue_text(rate_refusal_json(message.id, *refused));
  }
  const ViewerId viewer =
      context_->hub.start(std::move(message.request), message.keep, weak_from_this(), caller_,
                          fmt::format("{}-{}", request_id_, ++last_stream_));
  if (viewer == 0) {
    refuse(message.id, "shutting_down", "The server is shutting down; try again later.");
    return;
  }
  ids_.emplace(viewer, message.id);
  viewers_.emplace(std::move(message.id), viewer);
}

void WsSession::handle(const ResumeMessage& message) {
  if (!may_begin(message.id)) return;
  const auto attached =
      context_->hub.attach(message.stream, message.after, weak_from_this(), caller_);
  switch (attached.fault) {
    case StreamHub::AttachFault::kUnknownStream:
      refuse(message.id, "unknown_stream",
             "There is no stream with this key; it may have ended too long ago.");
      return;
    case StreamHub::AttachFault::kGoneTooFar:
      refuse(message.id, "gone_too_far",
             fmt::format("Events up to {0} are no longer kept; resume after {0} or later.",
                         attached.forgotten));
      return;
    case StreamHub::AttachFault::kNone:
      ids_.emplace(attached.viewer, message.id);
      viewers_.emplace(message.id, attached.viewer);
      return;
  }
}

/// Whether a stream of this name may begin; says why not.
bool WsSession::may_begin(const std::string& id) {
  if (viewers_.contains(id)) {
    queue_text(error_json("duplicate_id",
                          fmt::format("A stream with the id \"{}\" is running on this connection; "
                                      "give the new one another id.",
                                      id)));
    return false;
  }
  if (ids_.size() >= limits().max_streams_per_connection) {
    refuse(id, "too_many_streams",
           fmt::format("This connection has {} streams, which is the limit; wait for one to end.",
                       ids_.size()));
    return false;
  }
  return true;
}

void WsSession::handle(const SteerMessage& message) {
  const auto viewer = viewers_.find(message.id);
  if (viewer == viewers_.end()) return;  // it may have ended while the frame was on its way
  switch (message.action) {
    case SteerMessage::Action::kCancel:
      context_->hub.cancel(viewer->second, "cancelled by the client");
      break;
    case SteerMessage::Action::kPause:
      context_->hub.pause(viewer->second);
      break;
    case SteerMessage::Action::kUnpause:
      context_->hub.unpause(viewer->second);
      break;
  }
}

void WsSession::handle(ChangeMessage message) {
  const auto viewer = viewers_.find(message.id);
  if (viewer != viewers_.end()) {
    context_->hub.change(viewer->second, std::move(message.changes));
  }
}

void WsSession::handle(const StatsMessage& message) {
  if (message.on) {
    watching_ = message;
    context_->stats.subscribe(weak_from_this());
  } else {
    stop_watching();
  }
}

void WsSession::stop_watching() {
  if (!watching_) return;
  watching_.reset();
  stats_.reset();
  context_->stats.unsubscribe(this);
}

void WsSession::handle(const ProtocolError& error) {
  refuse(error.id, error.code, error.message);
}

/// With the id of a stream that never started, the error is that stream's only event. The id of
/// a running stream is left out: the error does not end it.
void WsSession::refuse(std::string_view id, const std::string& code, const std::string& message) {
  if (id.empty() || viewers_.contains(std::string(id))) {
    queue_text(error_json(code, message));
  } else {
    queue_text(event_json(id, ErrorEvent{1, code, message}));
  }
}

// -- writing ------------------------------------------------------------------------------------

void WsSession::queue_text(std::string text) {
  if (state_ != State::kOpen) return;
  text_bytes_ += text.size();
  texts_.push_back(std::move(text));
  count_queued_bytes();
  if (text_bytes_ > limits().max_queued_bytes) {
    drop("too many answers wait to be read");
    return;
  }
  do_write();
}

/// What is written next: texts, then the streams that have something, in turns.
std::optional<WsSession::Frame> WsSession::next_frame() {
  if (!texts_.empty()) {
    Frame frame{std::move(texts_.front())};
    texts_.pop_front();
    text_bytes_ -= frame.text.size();
    return frame;
  }
  if (stats_) return Frame{stats_text(*std::exchange(stats_, {}))};
  while (!ready_.empty()) {
    const ViewerId viewer = ready_.front();
    ready_.pop_front();
    auto frame = next_frame_of(viewer);
    if (!frame) continue;
    if (!frame->terminal) ready_.push_back(viewer);
    return frame;
  }
  return std::nullopt;
}

std::optional<WsSession::Frame> WsSession::next_frame_of(ViewerId viewer) {
  const auto id = ids_.find(viewer);
  if (id == ids_.end()) return std::nullopt;
  const auto event = context_->hub.take(viewer);
  if (!event) return std::nullopt;
  const bool accepted = std::holds_alternative<AcceptedEvent>(*event);
  Frame frame{event_json(id->second, *event, accepted ? names_of(viewer) : AcceptedNames(),
                         [this](TokenId token) { return context_->service.token_text(token); }),
              viewer, number_of(*event), is_terminal(*event)};
  if (frame.terminal) viewers_.erase(id->second);  // the id is free again
  return frame;
}

/// What all may see who watch, and what concerns this connection's own streams.
std::string WsSession::stats_text(const StatsSnapshot& stats) const {
  std::string own;
  if (caller_ && !caller_->observes()) {
    own =
        stats_fields(stats.stats, without_others(stats.view, context_->hub.sequences_of(*caller_)),
                     stats.seen_step);
  }
  JsonWriter json;
  json.begin_object();
  for (const auto& [id, viewer] : viewers_) {
    const SequenceId sequence = context_->hub.sequence(viewer);
    json.key(id).begin_object().field("sequence", sequence);
    const auto held = stats.held.find(sequence);
    if (watching_->held && held != stats.held.end()) json.field("held", held->second);
    json.end_object();
  }
  json.end_object();
  return fmt::format(R"({{"type":"stats",{},"streams":{}}})", own.empty() ? stats.fields : own,
                     json.str());
}

AcceptedNames WsSession::names_of(ViewerId viewer) const {
  return {context_->hub.stream_key(viewer), context_->hub.request_id(viewer)};
}

void WsSession::do_write() {
  if (writing_ || !accepted_ || state_ == State::kClosed) return;
  writing_ = next_frame();
  count_queued_bytes();
  if (!writing_) {
    if (state_ == State::kClosing) do_close();
    return;
  }
  stall_timer_.expires_after(limits().stall_timeout);
  stall_timer_.async_wait([self = shared_from_this()](error_code error) {
    const bool due = self->stall_timer_.expiry() <= asio::steady_timer::clock_type::now();
    if (!error && due && self->writing_) self->drop("nothing was read for too long");
  });
  ws_.async_write(
      asio::buffer(writing_->text),
      [self = shared_from_this()](error_code error, std::size_t) { self->on_write(error); });
}

void WsSession::on_write(error_code error) {
  stall_timer_.cancel();
  const Frame written = std::move(*writing_);
  writing_.reset();
  if (error) {
    disconnect();
    return;
  }
  ++context_->counters.frames_sent;
  context_->counters.bytes_sent += written.text.size();
  if (written.viewer != 0) {
    context_->hub.written(written.viewer, written.number, written.terminal);
    if (written.terminal) ids_.erase(written.viewer);
  }
  do_write();
}

void WsSession::count_queued_bytes() {
  const std::size_t now = text_bytes_ + (writing_ ? writing_->text.size() : 0);
  context_->counters.queued_bytes +=
      static_cast<std::int64_t>(now) - static_cast<std::int64_t>(counted_bytes_);
  counted_bytes_ = now;
}

// -- ending -------------------------------------------------------------------------------------

/// Sends what waits, then the close frame, then waits for the client's; all within one time.
void WsSession::begin_close(websocket::close_code code, const char* reason) {
  if (state_ != State::kOpen) return;
  state_ = State::kClosing;
  close_reason_ = websocket::close_reason(code, reason);
  close_timer_.expires_after(limits().close_timeout);
  close_timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->disconnect();
  });
  do_write();
}

void WsSession::do_close() {
  if (state_ != State::kClosing || writing_) return;
  state_ = State::kClosed;
  ws_.async_close(close_reason_, [self = shared_from_this()](error_code) { self->disconnect(); });
}

/// For a client that does not read. Its streams are left at once; if it reads again within the
/// closing time it learns why.
void WsSession::drop(const char* why) {
  if (state_ != State::kOpen) {
    disconnect();
    return;
  }
  web_log()->warn("A WebSocket client is dropped: {}.", why);
  ++context_->counters.clients_dropped;
  leave_streams();
  stop_watching();
  clear_queue();
  begin_close(websocket::close_code::policy_error, why);
}

/// The end of every connection, however it came. Leaves its streams and closes the socket; the
/// operations still pending then complete and let the session go.
void WsSession::disconnect() {
  state_ = State::kClosed;
  leave_streams();
  stop_watching();
  clear_queue();
  stall_timer_.cancel();
  close_timer_.cancel();
  ws_.next_layer().close();
}

void WsSession::clear_queue() {
  texts_.clear();
  text_bytes_ = 0;
  ready_.clear();
  count_queued_bytes();
}

void WsSession::leave_streams() {
  for (const auto& [viewer, id] : ids_) context_->hub.detach(viewer);
  ids_.clear();
  viewers_.clear();
}

}  // namespace

void start_ws_session(std::shared_ptr<ServerContext> context, ClientStream stream,
                      const UpgradeRequest& upgrade, CallerPtr caller, std::string request_id) {
  const auto session = std::make_shared<WsSession>(context, std::move(stream), std::move(caller),
                                                   std::move(request_id));
  context->connections.add(session);
  session->start(upgrade, WsSession::Welcome::kYes);
}

void refuse_ws_session(std::shared_ptr<ServerContext> context, ClientStream stream,
                       const UpgradeRequest& upgrade) {
  const auto session = std::make_shared<WsSession>(context, std::move(stream), nullptr, "");
  context->connections.add(session);
  session->start(upgrade, WsSession::Welcome::kNo);
}

}  // namespace sluice::web
