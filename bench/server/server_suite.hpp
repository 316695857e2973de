// The whole way from a WebSocket through the engine and back, measured from outside, on a server
// of its own in this process.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/suites/bench_engine.hpp"
#include "bench/suites/figures.hpp"

namespace sluice::bench {

/// With the model: for 1, 8 and 16 streams the time to the first token, the time between tokens,
/// the throughput, and what all but the kernels takes of a step and of the processors; /health
/// meanwhile. Then without a model's work: how many tokens a second the rest lets through.
/// Throws Error as the engine and the client do.
std::vector<Figure> run_server_suite(const BenchSettings& settings);

}  // namespace sluice::bench
