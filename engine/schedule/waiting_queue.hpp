// The queue before admission.
//
// In front those who have been admitted before (preempted, or continued after a failure), in
// order of arrival: a preempted sequence arrived before everyone who has not been admitted yet.
// Then the others: higher priority first, and in order of arrival within one. Nobody starves:
// after `max_passes` later requests have passed an entry, no further one does.
//
// Does not own the sequences.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/schedule/sequence.hpp"

namespace sluice {

class WaitingQueue {
 public:
  explicit WaitingQueue(std::int32_t max_passes) : max_passes_(max_passes) {}

  void insert(Sequence& sequence) {
    auto place = std::ranges::find_if(entries_, [&](const Sequence* entry) {
      return !entry->started || (sequence.started && entry->arrival > sequence.arrival);
    });
    if (!sequence.started) {
      auto end = entries_.end();
      while (end != place && may_pass(sequence, **std::prev(end))) ++(*--end)->passes;
      place = end;
    }
    entries_.insert(place, &sequence);
    tokens_ += sequence.tokens.size();
  }

  void remove(const Sequence& sequence) {
    entries_.erase(std::ranges::find(entries_, &sequence));
    tokens_ -= sequence.tokens.size();
  }

  std::span<Sequence* const> entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  /// Tokens of all waiting sequences.
  std::size_t num_tokens() const { return tokens_; }

  /// For audits: the rules above hold.
  bool in_order() const {
    return std::ranges::adjacent_find(entries_, [](const Sequence* a, const Sequence* b) {
             if (a->started != b->started) return b->started;
             return (a->started || a->priority == b->priority) && a->arrival > b->arrival;
           }) == entries_.end();
  }

 private:
  bool may_pass(const Sequence& sequence, const Sequence& before) const {
    return before.priority < sequence.priority && before.passes < max_passes_;
  }

  std::int32_t max_passes_;
  std::vector<Sequence*> entries_;
  std::size_t tokens_ = 0;
};

}  // namespace sluice
