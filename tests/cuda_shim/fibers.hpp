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
class StackPool {
 public:
  StackPool() = default;
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool();

  static constexpr std::size_t kBytes = std::size_t{128} << 10;
  /// The lowest address of stack `index`.
  unsigned char* stack(std::size_t index);
  /// Forgets what abandoned fibers left.
  void clean();

 private:
  std::vector<unsigned char*> stacks_;
};

class Fibers {
 public:
  /// Who goes on when a fiber waits.
  enum class Turn {
    kNext,   ///< the next in the order that can, round and round
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
  std::vector<int> place_in_order_;
  Context main_;
  Turn turn_ = Turn::kNext;
  const BodyRef* body_ = nullptr;
  int running_ = -1;
  int num_ended_ = 0;
  std::uint64_t switches_ = 0;
};

}  // namespace sluice::cuda_shim
