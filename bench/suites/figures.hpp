// What a benchmark reports: medians with their spread, beside the limit that bounds them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/suites/machine_limits.hpp"

namespace sluice::bench {

/// Middle, smallest and largest of repeated measurements.
struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
};

/// `values` is not empty.
Spread spread_of(std::vector<double> values);

/// One line of a table.
struct Figure {
  std::string suite;
  std::string what;  ///< e.g. "8 streams"
  std::string unit;  ///< of the values, e.g. "tokens/s"
  Spread value;
  std::string limit;  ///< what bounds it, e.g. "memory"; empty: nothing measured
  double percent_of_limit = 0;
  std::string note;  ///< e.g. "17.3 ms a step"
};

/// Repeats a measurement after one run that does not count. `measure` gives seconds.
std::vector<double> repeat(int repeats, const std::function<double()>& measure);

/// A table for people.
std::string table_of(const std::vector<Figure>& figures, const MachineLimits& limits);
/// The same as JSON: {"machine": {...}, "figures": [{...}, ...]}.
std::string json_of(const std::vector<Figure>& figures, const MachineLimits& limits,
                    std::string_view description);

}  // namespace sluice::bench
