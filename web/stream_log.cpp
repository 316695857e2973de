#include "web/stream_log.hpp"

#include <algorithm>
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

bool is_heartbeat(const Event& event) {
  return std::holds_alternative<HeartbeatEvent>(event);
}

void append(TokenEvent& joined, const TokenEvent& next) {
  joined.number = next.number;
  joined.text += next.text;
  joined.pieces.insert(joined.pieces.end(), next.pieces.begin(), next.pieces.end());
}

}  // namespace

void StreamLog::push(Event event) {
  // Of heartbeats in a row the newest says it all; its new serial reaches those who took the old.
  if (is_heartbeat(event) && !entries_.empty() && is_heartbeat(entries_.back().event)) {
    bytes_ -= entries_.back().bytes;
    entries_.pop_back();
  }
  const std::size_t bytes = estimate(event);
  bytes_ += bytes;
  if (!is_heartbeat(event)) {
    last_number_ = number_of(event);
    unseen_bytes_ += bytes;
  }
  ended_ = is_terminal(event);
  entries_.push_back({++last_serial_, bytes, std::move(event)});
  settle();
}

bool StreamLog::attach(ViewerId viewer, std::uint64_t after) {
  after = std::min(after, ended_ ? last_number_ - 1 : last_number_);
  if (after < forgotten_) return false;
  const auto first = std::find_if(entries_.begin(), entries_.end(), [after](const Entry& entry) {
    return number_of(entry.event) > after && !is_heartbeat(entry.event);
  });
  // With nothing to replay the heartbeat at the end, if there is one, still tells the phase.
  std::uint64_t taken = 0;
  if (first != entries_.end()) {
    taken = first->serial - 1;
  } else if (!entries_.empty()) {
    const bool beats = is_heartbeat(entries_.back().event);
    taken = entries_.back().serial - (beats ? 1 : 0);
  }
  viewers_[viewer] = {taken, last_serial_, after};
  see(after);
  settle();
  return true;
}

void StreamLog::detach(ViewerId viewer) {
  viewers_.erase(viewer);
  settle();
}

std::optional<Event> StreamLog::take(ViewerId viewer) {
  const auto found = viewers_.find(viewer);
  if (found == viewers_.end()) return std::nullopt;
  Viewer& at = found->second;
  std::size_t index = first_after(at.taken);
  // The heartbeats among replayed events speak of the past.
  while (index + 1 < entries_.size() && entries_[index].serial <= at.replay &&
         is_heartbeat(entries_[index].event)) {
    ++index;
  }
  if (index >= entries_.size()) return std::nullopt;

  Event event = entries_[index].event;
  std::size_t bytes = entries_[index].bytes;
  if (auto* joined = std::get_if<TokenEvent>(&event)) {
    for (; index + 1 < entries_.size(); ++index) {
      const Entry& next = entries_[index + 1];
      const auto* token = std::get_if<TokenEvent>(&next.event);
      if (token == nullptr || bytes + next.bytes > options_.join_bytes) break;
      append(*joined, *token);
      bytes += next.bytes;
    }
  }
  at.taken = entries_[index].serial;
  return event;
}

void StreamLog::written(ViewerId viewer, std::uint64_t number) {
  const auto found = viewers_.find(viewer);
  if (found == viewers_.end()) return;
  found->second.written = std::max(found->second.written, number);
  see(number);
  settle();
}

std::size_t StreamLog::first_after(std::uint64_t serial) const {
  const auto entry = std::upper_bound(
      entries_.begin(), entries_.end(), serial,
      [](std::uint64_t wanted, const Entry& candidate) { return wanted < candidate.serial; });
  return static_cast<std::size_t>(entry - entries_.begin());
}

/// The least of everything; of no viewers, all there is.
StreamLog::Viewer StreamLog::slowest() const {
  Viewer slowest{last_serial_, 0, last_number_};
  for (const auto& [id, viewer] : viewers_) {
    slowest.taken = std::min(slowest.taken, viewer.taken);
    slowest.written = std::min(slowest.written, viewer.written);
  }
  return slowest;
}

/// Some viewer has written everything up to `number`.
void StreamLog::see(std::uint64_t number) {
  if (number <= seen_) return;
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    const std::uint64_t candidate = number_of(entry->event);
    if (candidate <= seen_) break;
    if (candidate <= number && !is_heartbeat(entry->event)) unseen_bytes_ -= entry->bytes;
  }
  seen_ = number;
}

/// After any change: acknowledges what may be, and forgets what nobody needs.
void StreamLog::settle() {
  const Viewer least = slowest();
  const bool takes_delivery = options_.keeps && (ended_ || unseen_bytes_ <= options_.max_bytes / 2);
  if (!viewers_.empty() || takes_delivery) acknowledged_ = std::max(acknowledged_, least.written);

  const std::uint64_t needless = viewers_.empty() ? seen_ : least.written;
  while (!entries_.empty() && (!options_.keeps || bytes_ > options_.max_bytes)) {
    const Entry& oldest = entries_.front();
    const std::uint64_t number = number_of(oldest.event);
    if (number > needless || oldest.serial > least.taken) break;
    if (options_.keeps && entries_.size() == 1) break;
    if (!is_heartbeat(oldest.event)) forgotten_ = number;
    bytes_ -= oldest.bytes;
    entries_.pop_front();
  }
}

}  // namespace sluice::web
