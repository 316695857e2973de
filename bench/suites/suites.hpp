// The suites of `sluice bench`: each measures one question and gives figures.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "bench/suites/bench_engine.hpp"
#include "bench/suites/figures.hpp"

namespace sluice::bench {

struct Suite {
  std::string_view name;
  std::string_view summary;  ///< for --help
  std::vector<Figure> (*run)(const BenchSettings& settings, LimitProbe& probe);
};

/// All but the one that needs a server.
std::span<const Suite> suites();

/// Null for an unknown name.
const Suite* find_suite(std::string_view name);

}  // namespace sluice::bench
