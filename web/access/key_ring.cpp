#include "web/access/key_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sluice::web {
namespace {

std::int64_t whole_seconds(std::chrono::milliseconds time) {
  return std::chrono::ceil<std::chrono::seconds>(time).count();
}

}  // namespace

// -- caller ---------------------------------------------------------------------------------------

Caller::Caller(KeyEntry entry, Clock::time_point now)
    : name_(std::move(entry.name)),
      digest_(entry.digest),
      observes_(entry.observes),
      max_streams_(entry.streams),
      requests_(entry.requests, now),
      tokens_(entry.tokens, now) {}

std::optional<RateRefusal> Caller::take_request(Clock::time_point now) {
  const auto refuse = [this](std::string_view what, std::chrono::milliseconds wait) {
    return RateRefusal{fmt::format("The key of \"{}\" has used up its {}; try again in {} s.",
                                   name_, what, whole_seconds(wait)),
                       wait};
  };
  const std::lock_guard lock(mutex_);
  // One token must be there, however many are needed: their number is not known yet.
  if (const auto wait = tokens_.wait_for(1.0, now); wait.count() > 0) return refuse("tokens", wait);
  if (const auto wait = requests_.wait_for(1.0, now); wait.count() > 0) {
    return refuse("requests", wait);
  }
  requests_.take(1.0, now);
  return std::nullopt;
}

void Caller::charge_tokens(std::int64_t tokens, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  tokens_.take(static_cast<double>(tokens), now);
}

std::optional<RateRefusal> Caller::refuse_streams(std::size_t more) const {
  constexpr std::chrono::seconds kSoon{1};
  const std::size_t most = max_streams_;
  const std::size_t open = open_streams_;
  if (most == 0 || open + more <= most) return std::nullopt;
  return RateRefusal{fmt::format("The key of \"{}\" may have {} streams at the same time, and has "
                                 "{}; wait for one to end.",
                                 name_, most, open),
                     kSoon};
}

void Caller::change(const KeyEntry& entry, Clock::time_point now) {
  observes_ = entry.observes;
  max_streams_ = entry.streams;
  const std::lock_guard lock(mutex_);
  requests_.change(entry.requests, now);
  tokens_.change(entry.tokens, now);
}

// -- ring -----------------------------------------------------------------------------------------

void KeyRing::set(const std::vector<KeyEntry>& entries) {
  const auto now = Caller::Clock::now();
  const std::lock_guard lock(mutex_);
  std::vector<CallerPtr> callers;
  for (const KeyEntry& entry : entries) {
    const auto known = std::find_if(callers_.begin(), callers_.end(), [&](const CallerPtr& caller) {
      return caller && caller->digest() == entry.digest && caller->name() == entry.name;
    });
    if (known == callers_.end()) {
      callers.push_back(std::make_shared<Caller>(entry, now));
    } else {
      (*known)->change(entry, now);
      callers.push_back(std::move(*known));
    }
  }
  callers_.swap(callers);
  for (const CallerPtr& gone : callers) {
    if (gone) gone->revoke();
  }
}

CallerPtr KeyRing::find(std::string_view key) const {
  if (!has_form_of_key(key)) return nullptr;
  const Digest digest = digest_of(key);
  CallerPtr found;
  const std::lock_guard lock(mutex_);
  for (const CallerPtr& caller : callers_) {
    if (equal_in_constant_time(caller->digest(), digest)) found = caller;
  }
  return found;
}

}  // namespace sluice::web
