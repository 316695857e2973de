// How near the kernels come to the machine's limits, each by itself.
#pragma once

#include <vector>

#include "bench/suites/bench_engine.hpp"
#include "bench/suites/figures.hpp"

namespace sluice::bench {

/// Products of every packed format with 1, 8, 32 and 512 rows of activations, and attention of one
/// row and of a prompt. The model of `settings` is not looked at.
std::vector<Figure> run_kernels(const BenchSettings& settings, LimitProbe& probe);

}  // namespace sluice::bench
