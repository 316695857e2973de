// The threads of a block as fibers of one thread: each runs until it waits, then the next one.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_shim/grid.hpp"

namespace sluice::cuda_shim {

/// A place to come back to.
struct Context {
  boost::context::detail::fcontext_t saved = nullptr;
  const void* stack_bottom = nullptr;  ///< for AddressSanitizer
  std::size_t stack_bytes = 0;
};

/// Stacks that are used again and again; memory is taken when they are touched.
///
/// A block's threads wake each other by turns, so that the ends of all their stacks are in use at
/// once. They must not meet in the sets of caches and of address translation: stacks are an odd
/// number of pages apart, and end at different places in their last pages.
class StackPool {
 public:
  StackPool() = default;
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool();

  struct Stack {
    unsigned char* bottom = nullptr;  ///< the lowest address
    std::size_t bytes = 0;
  };
  /// `index` is below kCount.
  Stack stack(std::size_t index);
  /// Forgets what abandoned fibers left.
  void clean();

  static constexpr std::size_t kCount = 1024;

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kApart = 33 * kPage;

  unsigned char* memory_ = nullptr;
};

class Fibers {
 public:
  /// Who goes on when a fiber waits.
  enum class Turn {
    kWarp,   ///< the next of its warp that can, round and round, or else of the next warp: fast
    kFirst,  ///< the first in the order that can: some run far ahead of the others
  };
  /// Runs body() in `count` fibers; `order` says which comes after which. Returns when all have
  /// ended, or none can go on, or one called abandon().
  void run(int count, const std::vector<int>& order, Turn turn, const BodyRef& body);

  int running() const { return running_; }
  /// The running fiber waits; returns after wake(). Does not return when nobody wakes it.
  void wait();
  void wake(int fiber);
  bool waits(int fiber) const { return states_[index(fiber)] == State::kWaits; }
  bool ended(int fiber) const { return states_[index(fiber)] == State::kEnded; }
  int num_ended() const { return num_ended_; }
  /// Changes who comes after whom.
  void reorder(const std::vector<int>& order);
  /// Ends run() at once; all fibers are dropped where they are.
  [[noreturn]] void abandon();
  std::uint64_t switches() const { return switches_; }

 private:
  enum class State : std::uint8_t { kReady, kWaits, kEnded };

  static std::size_t index(int fiber) { return static_cast<std::size_t>(fiber); }
  static void entry(boost::context::detail::transfer_t from);
  void start(int fiber);
  /// The next fiber in the order that can go on; -1: none.
  int next_ready() const;
  void leave();  ///< to the next ready fiber, or back to run()
  void switch_to(Context& from, Context& to, bool from_ends);
  static void arrived(boost::context::detail::transfer_t from);

  StackPool stacks_;
  std::vector<Context> contexts_;
  std::vector<State> states_;
  std::vector<int> order_;
  Context main_;
  Turn turn_ = Turn::kWarp;
  const BodyRef* body_ = nullptr;
  int running_ = -1;
  int num_ended_ = 0;
  std::uint64_t switches_ = 0;
};

}  // namespace sluice::cuda_shim
