// Values counted in buckets, as Prometheus' histograms are.
//
//   Histogram latency(kTokenSeconds);      // {0.001, 0.002, 0.005, ...}
//   latency.observe(0.0013);               // counts()[1], of the values in (0.001, 0.002]
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Not thread-safe; a copyable value.
class Histogram {
 public:
  /// `bounds` are the buckets' upper ends, ascending; they must outlive the histogram.
  explicit Histogram(std::span<const double> bounds);

  /// `times` values of this size.
  void observe(double value, std::uint64_t times = 1);

  std::span<const double> bounds() const { return bounds_; }
  /// One for each bound, and one for what is beyond them all.
  const std::vector<std::uint64_t>& counts() const { return counts_; }
  std::uint64_t count() const;  ///< values in all buckets
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;
  double sum_ = 0.0;
};

// From the fastest thing that a small model on a GPU does to the slowest that somebody waits for.

/// Waiting, first tokens, whole streams.
inline constexpr std::array<double, 18> kWaitSeconds = {0.001, 0.0025, 0.005, 0.01,  0.025, 0.05,
                                                        0.1,   0.25,   0.5,   1.0,   2.5,   5.0,
                                                        10.0,  25.0,   50.0,  100.0, 250.0, 600.0};
/// Between tokens, and of a step: fine where people read along.
inline constexpr std::array<double, 16> kTokenSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02,
                                                         0.03,   0.04,  0.05,   0.075, 0.1,  0.15,
                                                         0.25,   0.5,   1.0,    2.5};
/// Tokens of a prompt, an answer, a step.
inline constexpr std::array<double, 18> kTokenCounts = {
    1.0,   2.0,    4.0,    8.0,    16.0,   32.0,    64.0,    128.0,   256.0,
    512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131072.0};
/// Sequences of a step.
inline constexpr std::array<double, 9> kSequenceCounts = {1.0,  2.0,  4.0,   8.0,  16.0,
                                                          32.0, 64.0, 128.0, 256.0};

}  // namespace sluice
