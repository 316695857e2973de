// Many WebSocket clients at once, each with many streams, on real sockets against a live server:
// they vanish, close, cancel, pause, change, read slowly, come back for streams they left, look at
// each other's. One thread drives them, at random and from a seed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tests/soak/crowd.hpp"
#include "tests/soak/listener.hpp"

namespace sluice::soak {

class SocketCrowd {
 public:
  static constexpr std::size_t kStreamsPerClient = 20;

  /// `options.streams` are spread over clients of kStreamsPerClient each.
  SocketCrowd(std::uint16_t port, CrowdOptions options, Faults& faults, std::uint64_t seed);
  ~SocketCrowd();
  SocketCrowd(const SocketCrowd&) = delete;
  SocketCrowd& operator=(const SocketCrowd&) = delete;

  /// No new streams, no disturbances; what was left behind is resumed. True when the last
  /// stream has its end.
  bool drain();
  /// Closes every connection and stops the thread.
  void stop();

  std::uint64_t started() const;
  std::map<std::string, std::uint64_t> outcomes() const;
  std::map<std::string, std::uint64_t> deeds() const;
  double slowest_seconds() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace sluice::soak
