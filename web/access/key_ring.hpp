// The keys in force, and what their holders have used.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "web/access/key_file.hpp"

namespace sluice::web {

/// Why a request has to wait.
struct RateRefusal {
  std::string message;  ///< a sentence that says for how long
  std::chrono::milliseconds retry_after{0};
};

/// The holder of one key. Thread-safe.
class Caller {
 public:
  using Clock = TokenBucket::Clock;
  Caller(KeyEntry entry, Clock::time_point now);

  /// Streams belong to names: a key that replaces another sees the other's.
  const std::string& name() const { return name_; }
  const Digest& digest() const { return digest_; }
  bool observes() const { return observes_; }
  /// Its key is no longer in the file.
  bool revoked() const { return revoked_; }

  /// Takes a request out of its bucket; or nothing, when there is none or when the tokens are used
  /// up.
  std::optional<RateRefusal> take_request(Clock::time_point now = Clock::now());
  /// Tokens are charged for when they are there, and so may fall below zero.
  void charge_tokens(std::int64_t tokens, Clock::time_point now = Clock::now());

  /// Why `more` streams may not begin beside those that are there; none when they may.
  std::optional<RateRefusal> refuse_streams(std::size_t more) const;
  void stream_begun() { ++open_streams_; }
  void stream_over() { --open_streams_; }

  void change(const KeyEntry& entry, Clock::time_point now);
  void revoke() { revoked_ = true; }

 private:
  const std::string name_;
  const Digest digest_;
  std::atomic<bool> observes_;
  std::atomic<bool> revoked_{false};
  std::atomic<std::size_t> max_streams_;
  std::atomic<std::size_t> open_streams_{0};
  std::mutex mutex_;
  TokenBucket requests_;
  TokenBucket tokens_;
};
using CallerPtr = std::shared_ptr<Caller>;

/// Thread-safe.
class KeyRing {
 public:
  /// Puts these in the place of those before. Who stays keeps what has been used; who goes is
  /// revoked.
  void set(const std::vector<KeyEntry>& entries);
  /// The holder of this key, or none. Looks at every key, and at all of it.
  CallerPtr find(std::string_view key) const;

 private:
  mutable std::mutex mutex_;
  std::vector<CallerPtr> callers_;
};

}  // namespace sluice::web
