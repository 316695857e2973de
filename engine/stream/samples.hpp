// Several answers to one prompt.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/stream/request.hpp"

namespace sluice {

/// `n` requests for samples of one prompt. They differ in their seeds alone (seed, seed + 1, ...;
/// a random one when `request` has none), and each gives what it would give alone; together they
/// compute the prompt once and share its KV blocks. `n` below 1 counts as 1.
///
/// Worked example: a request with seed 7 and n = 3 gives three with the seeds 7, 8 and 9. Start
/// each as a stream of its own.
std::vector<GenerateRequest> sample_requests(const GenerateRequest& request, std::int32_t n);

}  // namespace sluice
