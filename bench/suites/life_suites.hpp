// How long an engine takes to be there, and whether it gets slower while it answers.
#pragma once

#include <vector>

#include "bench/suites/bench_engine.hpp"
#include "bench/suites/figures.hpp"

namespace sluice::bench {

/// From the file (in the page cache) to a backend that can step, weights repacked.
std::vector<Figure> run_start(const BenchSettings& settings, LimitProbe& probe);

/// The 10th and the 1000th token of an answer, and a step after as many positions of a fresh
/// start: the difference between the last two would be wear, not attention.
std::vector<Figure> run_answer(const BenchSettings& settings, LimitProbe& probe);

}  // namespace sluice::bench
