#include "engine/stream/samples.hpp"

#include <algorithm>
#include <cstddef>
#include <random>

namespace sluice {
namespace {

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

std::vector<GenerateRequest> sample_requests(const GenerateRequest& request, std::int32_t n) {
  std::vector<GenerateRequest> samples(static_cast<std::size_t>(std::max(n, 1)), request);
  const std::uint64_t seed = request.seed ? *request.seed : random_number();
  // Two groups with one number would do no harm: only equal prompts share.
  const std::uint64_t group = std::max<std::uint64_t>(random_number(), 1);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].seed = seed + i;
    if (samples.size() > 1) samples[i].sample_group = group;
  }
  return samples;
}

}  // namespace sluice
