// How long answers get: the default of max_new_tokens comes from the lengths seen so far.
//
//   LengthSketch sketch = LengthSketch::parse(text_of_the_last_run);
//   sketch.observe({.rule = StopRule::kEndToken, .tokens = 180});
//   Position in_force = default_max_new_tokens(sketch, 512);   // 512 until there are 200 samples,
//                                                              // then the 90th percentile
//
// A histogram whose buckets grow by 4 % each: bucket i has the lengths in (g^(i-1), g^i], with
// g = 1.02 / 0.98, and stands for a length from which all of them differ by 2 % at most. So every
// quantile is within 2 % of that of the samples, for any distribution, and lengths up to 24 are
// exact; 538 buckets reach to the largest length there can be. (This is the guarantee one wants
// here; P-square gives none, and a t-digest bounds the error of the rank, which says little about
// the length where few answers are.) Histograms of several runs can also be added up.
//
// Old samples fade: each new one weakens all before it by 1/5000, so that the sketch follows a
// change of use, and no count grows without end.
//
// Which ends count. Answers that came to their own end do: end token, stop string, the caller's
// rule. Answers that the default maximum or the context cut would have been longer by an unknown
// length; they count a quarter longer than they were. Leaving them out would be wrong: the
// maximum would cut off the longest tenth of the samples, then of what is left, and so on down.
// This way it rests where one in ten is cut, grows when more are, and sinks when fewer are.
// Everything else says nothing about how long answers want to be and does not count: a maximum
// that the caller chose, a time limit, a cancel, a failure, doubt, repetition.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/types.hpp"
#include "engine/stream/events.hpp"

namespace sluice {

class LengthSketch {
 public:
  /// How one stream ended.
  struct Ending {
    StopRule rule = StopRule::kEndToken;
    Position tokens = 0;          ///< completion tokens
    bool default_maximum = true;  ///< max_new_tokens was not the caller's choice
  };

  /// Counts the stream if its end says something about how long answers get (see above);
  /// returns whether it did.
  bool observe(const Ending& ending);

  /// Counts one length; of less than 1, nothing.
  void add(std::int64_t tokens);

  /// The length that a part `q` of the samples (0 to 1) do not exceed; nothing without samples.
  std::optional<Position> quantile(double q) const;

  /// How many lengths were ever counted, also those that faded.
  std::uint64_t samples() const { return samples_; }

  /// One line of ASCII text, "sluice-lengths 1 SAMPLES INDEX:WEIGHT INDEX:WEIGHT ...".
  std::string serialise() const;

  /// Throws Error(kCorrupt) for anything that serialise() does not write.
  static LengthSketch parse(std::string_view text);

 private:
  std::uint64_t samples_ = 0;
  std::vector<double> weights_;  ///< by bucket; as long as needed
  double newest_ = 1.0;          ///< weight of the next sample; grows instead of the others fading
};

/// Samples that must have been seen before they decide.
inline constexpr std::uint64_t kSamplesToDecide = 200;

/// The default of max_new_tokens in force: `configured` until there are enough samples, then
/// their 90th percentile.
Position default_max_new_tokens(const LengthSketch& sketch, Position configured);

}  // namespace sluice
