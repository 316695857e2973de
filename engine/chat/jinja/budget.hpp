// What one rendering may cost. Templates come out of model files, so a rendering is bounded in
// time, memory, output and nesting, whatever the template says.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::jinja {

/// Bounds of one rendering. The defaults are far above what real templates need: the largest one
/// known takes less than a thousandth of them for a conversation of 100 messages.
struct Limits {
  std::size_t max_output_bytes = std::size_t{64} << 20;        ///< also of every single string
  std::uint64_t max_allocated_bytes = std::uint64_t{1} << 30;  ///< over the rendering, never reused
  std::uint64_t max_work = 4'000'000'000;  ///< about nanoseconds: 50 a node, 1 a byte looked at
  int max_depth = 800;                     ///< nested expressions, blocks and macro calls
};

/// Counts down what is left. Every method throws Failure(kLimit) when nothing is.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  static constexpr std::uint64_t kNodeWork = 50;

  /// One node of the template is about to be looked at.
  void node() { work(kNodeWork); }
  /// `units` bytes or small items are about to be looked at.
  void work(std::uint64_t units) {
    work_ += units;
    if (work_ > limits_.max_work) fail_work();
  }
  /// `bytes` are about to be allocated and filled.
  void allocate(std::uint64_t bytes) {
    allocated_ += bytes;
    if (allocated_ > limits_.max_allocated_bytes) fail_allocation();
    work(bytes);
  }
  /// Checks the length of one string before it is made.
  void check_length(std::size_t bytes) const {
    if (bytes > limits_.max_output_bytes) fail_length();
  }

  /// Holds one level of nesting while it lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.depth_ > budget_.limits_.max_depth) budget_.fail_depth();
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  [[noreturn]] void fail_work() const;
  [[noreturn]] void fail_allocation() const;
  [[noreturn]] void fail_length() const;
  [[noreturn]] void fail_depth();

  Limits limits_;
  std::uint64_t work_ = 0;
  std::uint64_t allocated_ = 0;
  int depth_ = 0;
};

}  // namespace sluice::jinja
