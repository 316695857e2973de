// A set of places in the last 1024 bytes of a text: where the candidates of a pattern began.
//
// The places of a window of 1024 bytes differ in their lowest 10 bits, which number the bits of
// the set. The owner knows which window is meant and clears what leaves it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace sluice {

class StartRing {
 public:
  static constexpr std::uint64_t kWindow = 1024;

  void set(std::uint64_t place) { word(place) |= std::uint64_t{1} << (place % 64); }

  void merge(const StartRing& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  /// The same, and whether that changed anything.
  bool merge_changes(const StartRing& other) {
    std::uint64_t added = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      added |= other.words_[i] & ~words_[i];
      words_[i] |= other.words_[i];
    }
    return added != 0;
  }

  void clear() { words_ = {}; }

  /// Removes all places outside [from, to); to - from is at most the window.
  void keep(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t place = to; place < from + kWindow;) {
      const std::uint64_t count = std::min(64 - place % 64, from + kWindow - place);
      const std::uint64_t bits = count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
      word(place) &= ~(bits << (place % 64));
      place += count;
    }
  }

  /// The first place in [from, to), or `to`.
  std::uint64_t first(std::uint64_t from, std::uint64_t to) const {
    for (std::uint64_t place = from; place < to;) {
      const std::uint64_t bits = words_[place % kWindow / 64] >> (place % 64);
      if (bits != 0) return std::min(place + static_cast<unsigned>(std::countr_zero(bits)), to);
      place += 64 - place % 64;
    }
    return to;
  }

 private:
  std::uint64_t& word(std::uint64_t place) { return words_[place % kWindow / 64]; }

  std::array<std::uint64_t, kWindow / 64> words_ = {};
};

}  // namespace sluice
