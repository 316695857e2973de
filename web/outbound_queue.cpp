#include "web/outbound_queue.hpp"

#include <iterator>
#include <utility>

#include "web/event_json.hpp"

namespace sluice::web {
namespace {

constexpr std::size_t kControlBytes = 512;  // accepted, done, error, heartbeat: more than most need

std::size_t estimate(const Event& event) {
  if (const auto* token = std::get_if<TokenEvent>(&event)) return estimated_json_bytes(*token);
  return kControlBytes;
}

void append(TokenEvent& waiting, TokenEvent&& next) {
  waiting.number = next.number;
  waiting.text += next.text;
  waiting.pieces.insert(waiting.pieces.end(), std::make_move_iterator(next.pieces.begin()),
                        std::make_move_iterator(next.pieces.end()));
}

}  // namespace

void OutboundQueue::push(std::string text) {
  const std::size_t bytes = text.size();
  bytes_ += bytes;
  entries_.push_back({std::move(text), bytes});
}

void OutboundQueue::push(StreamKey key, const std::string& id, Event event) {
  const auto last = last_of_stream_.find(key);
  if (last != last_of_stream_.end() && merge_into(entries_[last->second - popped_], event)) return;

  const std::size_t bytes = estimate(event) + id.size();
  last_of_stream_[key] = popped_ + entries_.size();
  bytes_ += bytes;
  entries_.push_back({StreamEntry{key, id, std::move(event)}, bytes});
}

bool OutboundQueue::merge_into(Entry& waiting, Event& event) {
  Event& before = std::get<StreamEntry>(waiting.content).event;
  const std::size_t bytes = estimate(event);
  auto* tokens = std::get_if<TokenEvent>(&before);
  auto* more = std::get_if<TokenEvent>(&event);
  if (tokens != nullptr && more != nullptr) {
    append(*tokens, std::move(*more));
    waiting.bytes += bytes;
    bytes_ += bytes;
    return true;
  }
  if (std::holds_alternative<HeartbeatEvent>(before) &&
      std::holds_alternative<HeartbeatEvent>(event)) {
    before = std::move(event);
    return true;
  }
  return false;
}

std::optional<Frame> OutboundQueue::pop() {
  if (entries_.empty()) return std::nullopt;
  Entry entry = std::move(entries_.front());
  entries_.pop_front();
  const std::uint64_t serial = popped_++;
  bytes_ -= entry.bytes;

  if (auto* text = std::get_if<std::string>(&entry.content)) {
    return Frame{std::move(*text), std::nullopt, 0, false};
  }
  const auto& of_stream = std::get<StreamEntry>(entry.content);
  const auto last = last_of_stream_.find(of_stream.key);
  if (last != last_of_stream_.end() && last->second == serial) last_of_stream_.erase(last);
  return Frame{event_json(of_stream.id, of_stream.event), of_stream.key, number_of(of_stream.event),
               is_terminal(of_stream.event)};
}

void OutboundQueue::clear() {
  popped_ += entries_.size();
  entries_.clear();
  last_of_stream_.clear();
  bytes_ = 0;
}

}  // namespace sluice::web
