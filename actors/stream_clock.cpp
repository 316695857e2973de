#include "actors/stream_clock.hpp"

#include <algorithm>
#include <cstddef>

namespace sluice {

void StreamClock::on_publications(std::span<const Publication> publications, TimePoint now) {
  std::size_t tokens = 0;
  bool moved = false;
  for (const Publication& publication : publications) {
    if (publication.kind == Publication::Kind::kToken) ++tokens;
    moved |= publication.kind == Publication::Kind::kPrefill;
  }
  if ((moved || tokens > 0) && !std::exchange(left_queue_, true)) {
    board_->queue_left(now - accepted_);
  }
  if (tokens == 0) return;
  if (!std::exchange(first_token_seen_, true)) {
    board_->first_token(now - accepted_);
  } else if (last_token_) {
    board_->further_tokens(now - *last_token_, tokens);
  }
  last_token_ = now;
}

void StreamClock::on_end(const Event& event, TimePoint now) {
  board_->stream_ended(now - accepted_);
  if (const auto* done = std::get_if<DoneEvent>(&event)) board_->stream_used(done->usage);
}

}  // namespace sluice
