// The queue before admission, in order of arrival. A preempted sequence arrived before everyone
// who has not been admitted yet, so its place by arrival is at the head.
//
// Does not own the sequences.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/schedule/sequence.hpp"

namespace sluice {

class WaitingQueue {
 public:
  void insert(Sequence& sequence) {
    const auto place = std::ranges::upper_bound(entries_, sequence.arrival, {}, &Sequence::arrival);
    entries_.insert(place, &sequence);
    tokens_ += sequence.tokens.size();
  }

  void remove(const Sequence& sequence) {
    const auto place = std::ranges::lower_bound(entries_, sequence.arrival, {}, &Sequence::arrival);
    entries_.erase(place);
    tokens_ -= sequence.tokens.size();
  }

  std::span<Sequence* const> entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  /// Tokens of all waiting sequences.
  std::size_t num_tokens() const { return tokens_; }

 private:
  std::vector<Sequence*> entries_;
  std::size_t tokens_ = 0;
};

}  // namespace sluice
