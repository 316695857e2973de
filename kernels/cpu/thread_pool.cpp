#include "kernels/cpu/thread_pool.hpp"

#include <chrono>
#include <system_error>

namespace sluice::kernels {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// state_: bits 16-31 the number of the loop, bit 15 set while it may be joined, bits 0-14 how
// many workers have joined.
constexpr std::uint32_t kOpen = 1U << 15;
constexpr std::uint32_t kJoinedMask = kOpen - 1;
constexpr std::uint32_t kLoopStep = 1U << 16;
constexpr std::uint32_t loop_number(std::uint32_t state) {
  return state / kLoopStep;
}

/// Waits until `value` differs from `old`: first spinning, so that back-to-back loops need no
/// system call, then parked, so that an idle engine uses no processor.
std::uint32_t wait_while_equal(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kSpin = std::chrono::microseconds(60);
  const auto deadline = Clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      const std::uint32_t now = value.load(std::memory_order_acquire);
      if (now != old) return now;
      relax();
    }
  } while (Clock::now() < deadline);
  for (;;) {
    const std::uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    value.wait(old, std::memory_order_acquire);
  }
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  workers_.reserve(static_cast<std::size_t>(threads > 1 ? threads - 1 : 0));
  try {
    for (int i = 1; i < threads; ++i)
      workers_.emplace_back([this, i] { worker_main(static_cast<std::size_t>(i)); });
  } catch (const std::system_error&) {
    // The system gives no more threads: go on with those there are.
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  state_.fetch_add(kLoopStep, std::memory_order_release);
  state_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(const Loop& loop) {
  if (loop.count == 0) return;
  if (workers_.empty() || loop.count <= loop.grain) {
    for (std::size_t begin = 0; begin < loop.count; begin += loop.grain)
      loop.call(loop.context, begin,
                begin + loop.grain < loop.count ? begin + loop.grain : loop.count, 0);
    return;
  }
  loop_ = loop;
  next_.store(0, std::memory_order_relaxed);
  finished_.store(0, std::memory_order_relaxed);
  const std::uint32_t number = loop_number(state_.load(std::memory_order_relaxed)) + 1;
  state_.store(number * kLoopStep | kOpen, std::memory_order_release);
  state_.notify_all();
  work(0);
  // Every item is handed out: nobody else needs to join.
  const std::uint32_t joined = state_.fetch_and(~kOpen, std::memory_order_acq_rel) & kJoinedMask;
  for (std::uint32_t done = finished_.load(std::memory_order_acquire); done != joined;)
    done = wait_while_equal(finished_, done);
}

void ThreadPool::work(std::size_t thread) {
  const Loop& loop = loop_;
  for (;;) {
    const std::size_t begin = next_.fetch_add(loop.grain, std::memory_order_relaxed);
    if (begin >= loop.count) return;
    const std::size_t end = begin + loop.grain < loop.count ? begin + loop.grain : loop.count;
    loop.call(loop.context, begin, end, thread);
  }
}

void ThreadPool::worker_main(std::size_t thread) {
  std::uint32_t state = state_.load(std::memory_order_acquire);
  std::uint32_t last = loop_number(state);  // the loop this worker was in, or may not enter
  while (!stopping_.load(std::memory_order_relaxed)) {
    if ((state & kOpen) == 0 || loop_number(state) == last) {
      state = wait_while_equal(state_, state);
    } else if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel,
                                            std::memory_order_acquire)) {
      last = loop_number(state);
      work(thread);
      finished_.fetch_add(1, std::memory_order_release);
      finished_.notify_one();
      state = state_.load(std::memory_order_acquire);
    }
  }
}

}  // namespace sluice::kernels
