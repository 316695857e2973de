// One stream as a client sees it in frames, with everything checked that the protocol promises.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/soak/listener.hpp"

namespace sluice::soak {

class WireStream {
 public:
  using Clock = std::chrono::steady_clock;

  WireStream(std::shared_ptr<const Reference> reference, Faults& faults)
      : reference_(std::move(reference)), faults_(&faults) {}

  /// A frame of this stream.
  void on_frame(const simdjson::dom::element& frame);

  const std::string& key() const { return key_; }  ///< what `resume` takes; empty: not kept
  void set_key(std::string key) { key_ = std::move(key); }
  std::uint64_t last_number() const { return number_; }
  const std::string& outcome() const { return outcome_; }  ///< rule or "error:CODE"; empty: runs
  Clock::time_point born() const { return born_; }
  const std::shared_ptr<const Reference>& reference() const { return reference_; }
  bool paused = false;

 private:
  void on_token(const simdjson::dom::element& frame);
  void on_done(const simdjson::dom::element& frame);

  std::shared_ptr<const Reference> reference_;
  Faults* faults_;
  Clock::time_point born_ = Clock::now();
  std::string key_;
  std::string outcome_;
  std::string text_;
  std::size_t tokens_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace sluice::soak
