// The block tables of a backend under test, and logits of texts that are fed in chunks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/backend/backend.hpp"

namespace sluice::test {

class RigBlocks {
 public:
  RigBlocks(std::int32_t count, std::int32_t block_size) : block_size_(block_size) {
    for (BlockId b = 0; b < count; ++b) free_.push_back(b);
  }

  /// From now on blocks are handed out in a random order.
  void shuffle(std::uint32_t seed) {
    std::mt19937 random(seed);
    std::shuffle(free_.begin(), free_.end(), random);
  }

  std::vector<BlockId> take_blocks(std::size_t positions) {
    const std::size_t n = (positions + static_cast<std::size_t>(block_size_) - 1) /
                          static_cast<std::size_t>(block_size_);
    std::vector<BlockId> table(free_.end() - static_cast<std::ptrdiff_t>(n), free_.end());
    free_.resize(free_.size() - n);
    return table;
  }
  void give_blocks(const std::vector<BlockId>& table) {
    free_.insert(free_.end(), table.begin(), table.end());
  }

 protected:
  /// Logits of all positions, [tokens x vocab]; `compute` gives those of one slice.
  template <class Compute>
  std::vector<float> logits_in_chunks(const std::vector<TokenId>& tokens, std::size_t chunk,
                                      const Compute& compute) {
    const std::vector<BlockId> table = take_blocks(tokens.size());
    std::vector<float> all;
    for (std::size_t i = 0; i < tokens.size(); i += chunk) {
      const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(i);
      const std::size_t n = std::min(chunk, tokens.size() - i);
      StepSlice slice;
      slice.first_position = static_cast<Position>(i);
      slice.tokens.assign(from, from + static_cast<std::ptrdiff_t>(n));
      slice.blocks = table;
      const std::vector<float> part = compute(slice);
      all.insert(all.end(), part.begin(), part.end());
    }
    give_blocks(table);
    return all;
  }

 private:
  std::int32_t block_size_;
  std::vector<BlockId> free_;
};

}  // namespace sluice::test
