#include "web/stream_hub.hpp"

#include <utility>

namespace sluice::web {

StreamKey StreamHub::start(GenerateRequest request, std::weak_ptr<EventSink> sink) {
  auto subscription = std::make_shared<Subscription>();
  subscription->sink = std::move(sink);
  StreamKey key = 0;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return 0;
    key = ++last_key_;
    streams_.emplace(key, Stream{{}, subscription});
  }
  // Not under the lock: the engine may call the handler before generate() returns.
  const StreamHandle handle = service_.generate(
      std::move(request),
      [key, subscription](const Event& event) { subscription->forward(key, event); },
      Delivery::kAcknowledged);
  {
    const std::lock_guard lock(mutex_);
    const auto stream = streams_.find(key);
    if (stream != streams_.end()) {
      stream->second.handle = handle;
      return key;
    }
  }
  handle.listener_gone();  // detached in between
  return key;
}

void StreamHub::cancel(StreamKey key, const std::string& detail) {
  handle(key).cancel(detail);
}

void StreamHub::pause(StreamKey key) {
  handle(key).pause();
}

void StreamHub::resume(StreamKey key) {
  handle(key).resume();
}

void StreamHub::delivered(StreamKey key, std::uint64_t number, bool terminal) {
  handle(key).delivered(number);
  if (!terminal) return;
  const std::lock_guard lock(mutex_);
  streams_.erase(key);
  if (streams_.empty()) emptied_.notify_all();
}

void StreamHub::detach(StreamKey key) {
  Stream stream;
  {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(key);
    if (found == streams_.end()) return;
    stream = std::move(found->second);
    streams_.erase(found);
    if (streams_.empty()) emptied_.notify_all();
  }
  stream.subscription->end();
  stream.handle.listener_gone();
}

void StreamHub::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

bool StreamHub::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void StreamHub::cancel_all(const std::string& detail) {
  for (const StreamKey key : keys()) cancel(key, detail);
}

void StreamHub::detach_all() {
  for (const StreamKey key : keys()) detach(key);
}

bool StreamHub::wait_until_empty(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return emptied_.wait_for(lock, limit, [this] { return streams_.empty(); });
}

std::size_t StreamHub::size() const {
  const std::lock_guard lock(mutex_);
  return streams_.size();
}

StreamHandle StreamHub::handle(StreamKey key) const {
  const std::lock_guard lock(mutex_);
  const auto stream = streams_.find(key);
  return stream != streams_.end() ? stream->second.handle : StreamHandle();
}

std::vector<StreamKey> StreamHub::keys() const {
  const std::lock_guard lock(mutex_);
  std::vector<StreamKey> keys;
  keys.reserve(streams_.size());
  for (const auto& [key, stream] : streams_) keys.push_back(key);
  return keys;
}

void StreamHub::Subscription::forward(StreamKey key, const Event& event) {
  const std::lock_guard lock(mutex);
  if (const auto listener = sink.lock()) listener->on_stream_event(key, event);
}

void StreamHub::Subscription::end() {
  const std::lock_guard lock(mutex);
  sink.reset();
}

}  // namespace sluice::web
