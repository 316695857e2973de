#include "web/openai/completion_session.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "web/http_session.hpp"
#include "web/openai/completion.hpp"
#include "web/request_log.hpp"
#include "web/response_text.hpp"
#include "web/web_log.hpp"

namespace sluice::web::openai {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::string_view kChatPath = "/v1/chat/completions";
constexpr std::string_view kCompletionPath = "/v1/completions";
constexpr std::size_t kMostReadAhead = 64 << 10;
constexpr int kClientGone = 499;  // in the log: it left before there was a response

std::int64_t seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

/// Everything runs on the connection's strand but shut_down(), abort() and on_news(). One write
/// at a time; meanwhile events wait in the hub, which holds the engine back. One read all the
/// time, which is how a client that goes away is noticed.
class CompletionSession final : public Connection,
                                public EventSink,
                                public std::enable_shared_from_this<CompletionSession> {
 public:
  CompletionSession(std::shared_ptr<ServerContext> context, AnswerLine line,
                    const ApiRequest& request, std::uint64_t number)
      : context_(std::move(context)),
        line_(std::move(line)),
        completion_(request, context_->service,
                    fmt::format("{}-{}", request.chat ? "chatcmpl" : "cmpl", number),
                    seconds_now()),
        timer_(line_.stream.get_executor()) {
    ++context_->counters.connections;
    line_.stream->expires_never();
  }

  ~CompletionSession() override {
    log();
    leave();
    --context_->counters.connections;
    context_->connections.remove(this);
  }

  void start(std::vector<GenerateRequest> streams);

  // -- from any thread ------------------------------------------------------------------------
  void shut_down() override {
    post([this] { line_.keep_alive = false; });  // the hub ends the streams
  }
  void abort() override {
    post([this] { disconnect(); });
  }
  void on_news(ViewerId viewer) override {
    post([this, viewer] {
      ready_.push_back(viewer);
      pump();
    });
  }

 private:
  enum class State { kOpen, kLast, kOver };  // kLast: the last bytes are on their way

  struct Taken {
    ViewerId viewer = 0;
    std::uint64_t number = 0;
    bool terminal = false;
  };

  // -- events -----------------------------------------------------------------------------------
  void pump();
  std::optional<std::pair<Taken, Event>> next_event();
  void mark_written(const Taken& taken);
  std::string bytes_of(Completion::Output& out);

  // -- the socket -------------------------------------------------------------------------------
  void watch();
  void on_watch(error_code error, std::size_t bytes);
  void write(std::string bytes, const Taken& taken);
  void on_write(error_code error, const Taken& taken);
  void finish();
  void end_answer();
  void log() const;
  void disconnect();
  void leave();

  template <class Function>
  void post(Function function) {
    asio::post(line_.stream.get_executor(),
               [self = shared_from_this(), function = std::move(function)] { function(); });
  }
  bool chunked() const { return line_.version >= 11; }

  const std::shared_ptr<ServerContext> context_;  // first: the io_context outlives the stream
  AnswerLine line_;
  Completion completion_;
  asio::steady_timer timer_;
  std::map<ViewerId, std::size_t> choices_;
  std::deque<ViewerId> ready_;
  std::deque<ViewerId> waiting_;  // for all to be accepted
  std::array<char, 4096> read_{};
  std::string writing_;
  int status_ = kClientGone;  // of the response, once it has begun
  std::uint64_t bytes_ = 0;   // of its body
  State state_ = State::kOpen;
  bool write_pending_ = false;
  bool read_pending_ = false;
  enum class Then { kNothing, kGiveBack, kFinish };
  Then then_ = Then::kNothing;               ///< once no read is pending any more
  std::shared_ptr<CompletionSession> self_;  ///< until the end: nothing else has to be pending
};

void CompletionSession::start(std::vector<GenerateRequest> streams) {
  self_ = shared_from_this();
  watch();
  std::size_t choice = 0;
  for (GenerateRequest& request : streams) {
    const ViewerId viewer = context_->hub.start(std::move(request), std::chrono::milliseconds(0),
                                                weak_from_this(), line_.caller, line_.request_id);
    if (viewer == 0) {
      Completion::Output out;
      out.whole = to_response(shutting_down());
      leave();
      state_ = State::kLast;
      return write(bytes_of(out), {});
    }
    choices_.emplace(viewer, choice++);
  }
  pump();
}

// -- events ---------------------------------------------------------------------------------------

/// Takes events until one has bytes for the client.
void CompletionSession::pump() {
  while (state_ == State::kOpen && !write_pending_) {
    auto next = next_event();
    if (!next) return;
    auto& [taken, event] = *next;
    Completion::Output out = completion_.on_event(choices_.at(taken.viewer), event);
    if (out.failed) leave();
    if (out.ended) state_ = State::kLast;
    std::string bytes = bytes_of(out);
    if (bytes.empty()) {
      mark_written(taken);
    } else {
      write(std::move(bytes), taken);
    }
  }
}

/// Of the streams that have something, in turns.
std::optional<std::pair<CompletionSession::Taken, Event>> CompletionSession::next_event() {
  if (!waiting_.empty() && !completion_.waits(choices_.at(waiting_.front()))) {
    ready_.insert(ready_.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
  }
  while (!ready_.empty()) {
    const ViewerId viewer = ready_.front();
    ready_.pop_front();
    const auto choice = choices_.find(viewer);
    if (choice == choices_.end()) continue;
    if (completion_.waits(choice->second)) {
      waiting_.push_back(viewer);
      continue;
    }
    auto event = context_->hub.take(viewer);
    if (!event) continue;
    const Taken taken{viewer, number_of(*event), is_terminal(*event)};
    if (!taken.terminal) ready_.push_back(viewer);
    return std::pair{taken, std::move(*event)};
  }
  return std::nullopt;
}

void CompletionSession::mark_written(const Taken& taken) {
  if (taken.viewer == 0 || !choices_.contains(taken.viewer)) return;
  context_->hub.written(taken.viewer, taken.number, taken.terminal);
  if (taken.terminal) choices_.erase(taken.viewer);
}

std::string CompletionSession::bytes_of(Completion::Output& out) {
  if (out.whole) {
    status_ = out.whole->status;
    bytes_ += out.whole->body.size();
    out.whole->headers.insert(out.whole->headers.end(), line_.headers.begin(), line_.headers.end());
    out.whole->headers.emplace_back("Cache-Control", "no-store");
    return response_head(*out.whole,
                         {.keep_alive = line_.keep_alive, .body_bytes = out.whole->body.size()}) +
           out.whole->body;
  }
  std::string bytes;
  bytes_ += out.body.size();
  if (out.head) {
    HttpResponse head;
    status_ = head.status;
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers = line_.headers;
    head.headers.emplace_back("Cache-Control", "no-store");
    head.headers.emplace_back("X-Accel-Buffering", "no");  // proxies must not collect events
    if (!chunked()) line_.keep_alive = false;
    bytes = response_head(head, {.keep_alive = line_.keep_alive, .chunked = chunked()});
  }
  if (!out.body.empty()) bytes += chunked() ? chunk(out.body) : out.body;
  if (out.ended && chunked()) bytes += kLastChunk;
  return bytes;
}

// -- the socket -----------------------------------------------------------------------------------

void CompletionSession::watch() {
  if (read_pending_ || line_.buffer.size() > kMostReadAhead) return;
  read_pending_ = true;
  line_.stream.async_read_some(asio::buffer(read_),
                               [self = shared_from_this()](error_code error, std::size_t bytes) {
                                 self->on_watch(error, bytes);
                               });
}

void CompletionSession::on_watch(error_code error, std::size_t bytes) {
  read_pending_ = false;
  if (bytes > 0) {
    const auto room = line_.buffer.prepare(bytes);
    asio::buffer_copy(room, asio::buffer(read_, bytes));
    line_.buffer.commit(bytes);
  }
  if (then_ != Then::kNothing) return end_answer();
  if (error) return disconnect();
  watch();
}

void CompletionSession::write(std::string bytes, const Taken& taken) {
  writing_ = std::move(bytes);
  write_pending_ = true;
  context_->counters.queued_bytes += static_cast<std::int64_t>(writing_.size());
  timer_.expires_after(context_->options.limits.stall_timeout);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (error || !self->write_pending_) return;
    web_log()->warn("A client of the completions API is dropped: nothing was read for too long.");
    ++self->context_->counters.clients_dropped;
    self->disconnect();
  });
  asio::async_write(line_.stream, asio::buffer(writing_),
                    [self = shared_from_this(), taken](error_code error, std::size_t) {
                      self->on_write(error, taken);
                    });
}

void CompletionSession::on_write(error_code error, const Taken& taken) {
  write_pending_ = false;
  timer_.cancel();
  context_->counters.queued_bytes -= static_cast<std::int64_t>(writing_.size());
  if (error || state_ == State::kOver) return disconnect();
  mark_written(taken);
  if (state_ == State::kLast) return finish();
  pump();
}

/// The answer is out. A connection that goes on is given back once the pending read has ended;
/// one that does not is closed when the client has seen the end, or after a short while.
void CompletionSession::finish() {
  leave();
  state_ = State::kOver;
  then_ = line_.keep_alive && !context_->stopping ? Then::kGiveBack : Then::kFinish;
  if (read_pending_) return line_.stream->cancel();
  end_answer();
}

void CompletionSession::end_answer() {
  if (std::exchange(then_, Then::kNothing) == Then::kGiveBack) {
    continue_http_session(context_, std::move(line_.stream), std::move(line_.buffer));
    self_.reset();
    return;
  }
  line_.stream->finish(
      IoHandler([self = shared_from_this()](error_code, std::size_t) { self->disconnect(); }));
}

/// The end of every connection that is not given back, however it came.
void CompletionSession::disconnect() {
  state_ = State::kOver;
  then_ = Then::kNothing;
  leave();
  timer_.cancel();
  line_.stream.close();
  self_.reset();
}

void CompletionSession::log() const {
  ++context_->counters.http_responses(status_);
  log_request({.request_id = line_.request_id,
               .method = "POST",
               .path = line_.path,
               .status = status_,
               .bytes = bytes_,
               .duration = std::chrono::steady_clock::now() - line_.began,
               .key_name = line_.caller ? line_.caller->name() : std::string()});
}

void CompletionSession::leave() {
  for (const auto& [viewer, choice] : choices_) context_->hub.detach(viewer);
  choices_.clear();
  ready_.clear();
  waiting_.clear();
}

}  // namespace

bool is_completion_path(std::string_view path) {
  return path == kChatPath || path == kCompletionPath;
}

ParsedRequest parse_request(std::string_view path, std::string_view body,
                            const ServerContext& context) {
  const ServiceInfo& info = context.service.info();
  const ApiDefaults defaults{.sampling = info.default_sampling,
                             .model = info.model_name,
                             .max_choices = context.options.limits.max_streams_per_connection};
  return path == kChatPath ? parse_chat_request(body, defaults)
                           : parse_completion_request(body, defaults);
}

void start_completion(std::shared_ptr<ServerContext> context, AnswerLine line, ApiRequest request) {
  const std::uint64_t number = ++context->last_completion;
  const auto session =
      std::make_shared<CompletionSession>(context, std::move(line), request, number);
  context->connections.add(session);
  session->start(streams_of(request));
}

}  // namespace sluice::web::openai
