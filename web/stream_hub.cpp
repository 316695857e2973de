#include "web/stream_hub.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "web/request_id.hpp"
#include "web/request_log.hpp"

namespace sluice::web {
namespace {

/// By name: a key that replaces another takes its streams over.
bool is_same_owner(const CallerPtr& a, const CallerPtr& b) {
  return a && b ? a->name() == b->name() : a == b;
}

}  // namespace

/// Shared with the engine's handler. Its mutex guards everything that is not const.
struct StreamHub::Stream {
  struct Viewer {
    std::weak_ptr<EventSink> sink;
    bool told = false;  // that there is news; until it has taken everything
  };

  Stream(std::string stream_key, CallerPtr whose, std::string request,
         std::chrono::milliseconds keep_for, const StreamLog::Options& log_options)
      : key(std::move(stream_key)),
        request_id(std::move(request)),
        owner(std::move(whose)),
        keep(keep_for),
        log(log_options) {
    if (owner) owner->stream_begun();
  }
  ~Stream() { count_out(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const std::string key;
  const std::string request_id;
  const CallerPtr owner;
  const std::chrono::milliseconds keep;
  mutable std::mutex mutex;
  StreamLog log;
  std::unordered_map<ViewerId, Viewer> viewers;
  StreamHandle handle;
  bool started = false;            // the handle is there
  std::vector<Steering> early;     // before that
  std::uint64_t acknowledged = 0;  // to the engine
  Clock::time_point since;         // its last viewer left, or it ended
  bool over = false;               // nothing is wanted any more
  Position charged = 0;            // tokens of the answer, to the owner; by the engine's thread
  std::atomic<bool> counted_out{false};

  void push(const Event& event);
  void charge(const Event& event);
  void count_out();
  void add(ViewerId viewer, std::weak_ptr<EventSink> sink);
  void set_handle(const StreamHandle& given);
  void acknowledge();
  void finish();
};

namespace {

template <class StreamPtr>
std::string owner_name(const StreamPtr& stream) {
  return stream->owner ? stream->owner->name() : std::string();
}

/// Who has most of these streams has to give up one; it is not for others to pay.
template <class Deadlines>
std::string owner_of_most(const Deadlines& streams) {
  std::map<std::string, std::size_t> counts;
  for (const auto& [deadline, stream] : streams) ++counts[owner_name(stream)];
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace

/// While it runs, and not at its end: a long answer must not come for nothing until then.
void StreamHub::Stream::charge(const Event& event) {
  if (!owner) return;
  if (const auto* accepted = std::get_if<AcceptedEvent>(&event)) {
    owner->charge_tokens(accepted->prompt_tokens);
  } else if (const auto* token = std::get_if<TokenEvent>(&event)) {
    const auto tokens = static_cast<Position>(token->pieces.size());
    charged += tokens;
    owner->charge_tokens(tokens);
  } else if (const auto* done = std::get_if<DoneEvent>(&event)) {
    owner->charge_tokens(std::max<Position>(0, done->usage.completion_tokens - charged));
  }
}

/// Of the owner's open streams: at the end, however it comes. What is kept behind it is a log.
void StreamHub::Stream::count_out() {
  if (owner && !counted_out.exchange(true)) owner->stream_over();
}

void StreamHub::Stream::push(const Event& event) {
  charge(event);
  if (is_terminal(event)) count_out();
  // A sink whose last owner this is must not die under the lock.
  std::vector<std::shared_ptr<EventSink>> listeners;
  {
    const std::lock_guard lock(mutex);
    if (over) return;
    log.push(event);
    if (log.ended()) since = Clock::now();
    for (auto& [id, viewer] : viewers) {
      if (std::exchange(viewer.told, true)) continue;
      if (auto listener = viewer.sink.lock()) {
        listener->on_news(id);
        listeners.push_back(std::move(listener));
      }
    }
  }
  log_stream_end(request_id, event);
  acknowledge();
}

/// Under the lock. A viewer that starts with something to take hears of it at once.
void StreamHub::Stream::add(ViewerId viewer, std::weak_ptr<EventSink> sink) {
  Viewer& added = viewers[viewer];
  added.sink = std::move(sink);
  if (log.last_number() == 0) return;
  added.told = true;
  if (const auto listener = added.sink.lock()) listener->on_news(viewer);
}

void StreamHub::Stream::set_handle(const StreamHandle& given) {
  std::vector<Steering> waiting;
  bool unwanted = false;
  {
    const std::lock_guard lock(mutex);
    unwanted = over;
    started = true;
    if (!unwanted) handle = given;
    waiting.swap(early);
  }
  if (unwanted) {
    given.listener_gone();
    return;
  }
  for (const Steering& steering : waiting) steering(given);
  acknowledge();
}

void StreamHub::Stream::acknowledge() {
  StreamHandle told;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex);
    number = log.acknowledged();
    if (!started || number <= acknowledged) return;
    acknowledged = number;
    told = handle;
  }
  told.delivered(number);
}

void StreamHub::Stream::finish() {
  StreamHandle last;
  bool complete = false;
  bool unended = false;
  count_out();
  {
    const std::lock_guard lock(mutex);
    unended = !over && !log.ended();
    over = true;
    viewers.clear();
    last = std::exchange(handle, {});
    complete = log.ended() && log.acknowledged() == log.last_number();
  }
  if (unended) log_stream_left(request_id);
  if (!complete) last.listener_gone();
}

// -- the hub --------------------------------------------------------------------------------------

StreamHub::StreamHub(StreamService& service, const HubOptions& options)
    : service_(service), options_(options), thread_([this] { run(); }) {}

StreamHub::~StreamHub() {
  detach_all();
}

ViewerId StreamHub::start(GenerateRequest request, std::chrono::milliseconds keep,
                          std::weak_ptr<EventSink> sink, CallerPtr owner, std::string request_id) {
  const bool keeps = keep.count() > 0;
  StreamLog::Options log;
  log.keeps = keeps;
  log.max_bytes = options_.log_bytes;
  const auto stream = std::make_shared<Stream>(keeps ? random_key() : "", std::move(owner),
                                               std::move(request_id), keep, log);
  ViewerId viewer = 0;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return 0;
    viewer = ++last_viewer_;
    stream->log.attach(viewer, 0);
    stream->add(viewer, std::move(sink));
    viewers_.emplace(viewer, stream);
    if (keeps) kept_.emplace(stream->key, stream);
  }
  // Not under the lock: the engine may call the handler before generate() returns.
  stream->set_handle(service_.generate(
      std::move(request), [stream](const Event& event) { stream->push(event); },
      Delivery::kAcknowledged));
  return viewer;
}

StreamHub::Attached StreamHub::attach(const std::string& stream_key, std::uint64_t after,
                                      std::weak_ptr<EventSink> sink, const CallerPtr& owner) {
  StreamPtr stream;
  ViewerId viewer = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(stream_key);
    if (found == kept_.end() || !is_same_owner(found->second->owner, owner)) {
      return {AttachFault::kUnknownStream, 0, 0};
    }
    stream = found->second;
    viewer = last_viewer_ + 1;
    const std::lock_guard stream_lock(stream->mutex);
    if (!stream->log.attach(viewer, after)) {
      return {AttachFault::kGoneTooFar, 0, stream->log.forgotten()};
    }
    last_viewer_ = viewer;
    viewers_.emplace(viewer, stream);
    stream->add(viewer, std::move(sink));
  }
  stream->acknowledge();  // what the viewer has, which may be all a full log waited for
  return {AttachFault::kNone, viewer, 0};
}

std::optional<Event> StreamHub::take(ViewerId viewer) {
  const StreamPtr stream = find(viewer);
  if (!stream) return std::nullopt;
  const std::lock_guard lock(stream->mutex);
  auto event = stream->log.take(viewer);
  const auto taker = stream->viewers.find(viewer);
  if (!event && taker != stream->viewers.end()) taker->second.told = false;
  return event;
}

void StreamHub::written(ViewerId viewer, std::uint64_t number, bool terminal) {
  const StreamPtr stream = find(viewer);
  if (!stream) return;
  {
    const std::lock_guard lock(stream->mutex);
    stream->log.written(viewer, number);
  }
  stream->acknowledge();
  if (terminal) leave(viewer);
}

void StreamHub::detach(ViewerId viewer) {
  leave(viewer);
}

void StreamHub::leave(ViewerId viewer) {
  std::vector<StreamPtr> ended;
  StreamPtr left;
  {
    const std::lock_guard lock(mutex_);
    const auto found = viewers_.find(viewer);
    if (found == viewers_.end()) return;
    left = std::move(found->second);
    viewers_.erase(found);
    if (viewers_.empty()) emptied_.notify_all();
    const std::lock_guard stream_lock(left->mutex);
    left->viewers.erase(viewer);
    left->log.detach(viewer);
    const bool unwatched = left->viewers.empty();
    if (unwatched && !left->log.ended()) left->since = Clock::now();
    if (unwatched && (left->key.empty() || closed_)) {
      kept_.erase(left->key);
      ended.push_back(left);
    }
  }
  for (const StreamPtr& stream : ended) stream->finish();
  if (!ended.empty()) return;
  left->acknowledge();
  deadlines_changed_.notify_all();
}

std::string StreamHub::stream_key(ViewerId viewer) const {
  const StreamPtr stream = find(viewer);
  return stream ? stream->key : std::string();
}

std::string StreamHub::request_id(ViewerId viewer) const {
  const StreamPtr stream = find(viewer);
  return stream ? stream->request_id : std::string();
}

SequenceId StreamHub::sequence(ViewerId viewer) const {
  const StreamPtr stream = find(viewer);
  if (!stream) return 0;
  const std::lock_guard lock(stream->mutex);
  return stream->handle.id();
}

std::set<SequenceId> StreamHub::sequences_of(const Caller& owner) const {
  std::set<SequenceId> sequences;
  for (const StreamPtr& stream : streams()) {
    if (!stream->owner || stream->owner->name() != owner.name()) continue;
    const std::lock_guard lock(stream->mutex);
    sequences.insert(stream->handle.id());
  }
  return sequences;
}

// -- steering -------------------------------------------------------------------------------------

void StreamHub::cancel(ViewerId viewer, const std::string& detail) {
  steer(viewer, [detail](const StreamHandle& handle) { handle.cancel(detail); });
}

void StreamHub::pause(ViewerId viewer) {
  steer(viewer, [](const StreamHandle& handle) { handle.pause(); });
}

void StreamHub::unpause(ViewerId viewer) {
  steer(viewer, [](const StreamHandle& handle) { handle.resume(); });
}

void StreamHub::change(ViewerId viewer, StreamChanges changes) {
  steer(viewer,
        [changes = std::move(changes)](const StreamHandle& handle) { handle.change(changes); });
}

void StreamHub::steer(ViewerId viewer, const Steering& steering) {
  const StreamPtr stream = find(viewer);
  if (!stream) return;
  StreamHandle handle;
  {
    const std::lock_guard lock(stream->mutex);
    if (!stream->started) {
      stream->early.push_back(steering);
      return;
    }
    handle = stream->handle;
  }
  steering(handle);
}

// -- ends -----------------------------------------------------------------------------------------

/// Takes out the streams that nobody came back for in time, and the oldest beyond the limit.
/// Returns when the next is due. Under the lock.
StreamHub::Clock::time_point StreamHub::sweep(Clock::time_point now,
                                              std::vector<StreamPtr>& ended) {
  std::vector<std::pair<Clock::time_point, StreamPtr>> unwatched;
  for (const auto& [key, stream] : kept_) {
    const std::lock_guard lock(stream->mutex);
    if (stream->viewers.empty()) unwatched.emplace_back(stream->since + stream->keep, stream);
  }
  std::sort(unwatched.begin(), unwatched.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto end_one = [&](auto which) {
    kept_.erase(which->second->key);
    ended.push_back(which->second);
    unwatched.erase(which);
  };
  while (!unwatched.empty() && (unwatched.front().first <= now || closed_)) {
    end_one(unwatched.begin());
  }
  while (unwatched.size() > options_.max_unwatched) {
    const std::string name = owner_of_most(unwatched);
    end_one(std::find_if(unwatched.begin(), unwatched.end(),
                         [&](const auto& each) { return owner_name(each.second) == name; }));
  }
  return unwatched.empty() ? Clock::time_point::max() : unwatched.front().first;
}

void StreamHub::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    std::vector<StreamPtr> ended;
    const Clock::time_point next = sweep(Clock::now(), ended);
    if (!ended.empty()) {
      lock.unlock();
      for (const StreamPtr& stream : ended) stream->finish();
      ended.clear();
      lock.lock();
    } else if (next == Clock::time_point::max()) {
      deadlines_changed_.wait(lock);
    } else {
      deadlines_changed_.wait_until(lock, next);
    }
  }
}

void StreamHub::close() {
  std::vector<StreamPtr> ended;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    sweep(Clock::now(), ended);
  }
  for (const StreamPtr& stream : ended) stream->finish();
}

bool StreamHub::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void StreamHub::cancel_all(const std::string& detail) {
  std::vector<ViewerId> viewers;
  {
    const std::lock_guard lock(mutex_);
    viewers.reserve(viewers_.size());
    for (const auto& [viewer, stream] : viewers_) viewers.push_back(viewer);
  }
  for (const ViewerId viewer : viewers) cancel(viewer, detail);
}

void StreamHub::detach_all() {
  const std::vector<StreamPtr> all = streams();
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    stopping_ = true;
    viewers_.clear();
    kept_.clear();
    emptied_.notify_all();
  }
  for (const StreamPtr& stream : all) stream->finish();
  deadlines_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool StreamHub::wait_until_empty(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return emptied_.wait_for(lock, limit, [this] { return viewers_.empty(); });
}

HubStats StreamHub::stats() const {
  HubStats stats;
  for (const StreamPtr& stream : streams()) {
    const std::lock_guard lock(stream->mutex);
    ++stats.streams;
    stats.viewers += stream->viewers.size();
    stats.unwatched += stream->viewers.empty() ? 1U : 0U;
    stats.log_bytes += stream->log.bytes();
  }
  return stats;
}

StreamHub::StreamPtr StreamHub::find(ViewerId viewer) const {
  const std::lock_guard lock(mutex_);
  const auto found = viewers_.find(viewer);
  return found != viewers_.end() ? found->second : nullptr;
}

/// Each once.
std::vector<StreamHub::StreamPtr> StreamHub::streams() const {
  std::vector<StreamPtr> all;
  {
    const std::lock_guard lock(mutex_);
    all.reserve(viewers_.size() + kept_.size());
    for (const auto& [viewer, stream] : viewers_) all.push_back(stream);
    for (const auto& [key, stream] : kept_) all.push_back(stream);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace sluice::web
