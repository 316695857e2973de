// Random weights in any type of a weight file, block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/formats/dtype.hpp"

namespace sluice::bench {

/// Small fast generator (splitmix64, Steele et al. 2014): a gigabyte of weights in a second or so.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  /// About normal, standard deviation 1: a sum of four uniform numbers.
  float normal();

 private:
  std::uint64_t state_;
};

/// `elements` weights (whole blocks) of about the given standard deviation: random bits with
/// scales that give it.
std::vector<std::byte> random_weights(DType type, std::size_t elements, float deviation,
                                      Random& random);

}  // namespace sluice::bench
