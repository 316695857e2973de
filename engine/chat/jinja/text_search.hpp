// Finding texts in texts, in linear time also for hostile ones.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::jinja {

/// First position at or after `from`, or npos.
std::size_t find_bytes(std::string_view text, std::string_view what, std::size_t from);

/// Finds the last occurrence again and again, from the end. Keeps a reversed copy.
class ReverseFinder {
 public:
  ReverseFinder(std::string_view text, std::string_view what);
  /// Last position whose match ends at or before `end`, or npos.
  std::size_t find(std::size_t end) const;

 private:
  std::string text_;
  std::string what_;
};

}  // namespace sluice::jinja
