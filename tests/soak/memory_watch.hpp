// Whether a process keeps growing: samples of its anonymous resident memory, and their slope.
#pragma once

#include <chrono>
#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

namespace sluice::soak {

/// RssAnon of this process in KiB; 0 where /proc has none.
inline double anonymous_kib() {
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    if (key == "RssAnon:") {
      double kib = 0;
      status >> kib;
      return kib;
    }
    std::getline(status, key);
  }
  return 0;
}

class MemoryWatch {
 public:
  void sample(double seconds) { samples_.push_back({seconds, anonymous_kib()}); }

  /// Slope of the line of least squares through the second half of the samples, KiB a second.
  double slope() const {
    double n = 0, st = 0, sm = 0, stt = 0, stm = 0;
    for (std::size_t i = samples_.size() / 2; i < samples_.size(); ++i) {
      const auto [t, m] = samples_[i];
      n += 1, st += t, sm += m, stt += t * t, stm += t * m;
    }
    const double spread = n * stt - st * st;
    return spread > 0 ? (n * stm - st * sm) / spread : 0;
  }
  /// Seconds that the second half lasted.
  double half_seconds() const {
    if (samples_.size() < 2) return 0;
    return samples_.back().seconds - samples_[samples_.size() / 2].seconds;
  }
  double last_kib() const { return samples_.empty() ? 0 : samples_.back().kib; }
  double middle_kib() const { return samples_.empty() ? 0 : samples_[samples_.size() / 2].kib; }

 private:
  struct Sample {
    double seconds;
    double kib;
  };
  std::vector<Sample> samples_;
};

}  // namespace sluice::soak
