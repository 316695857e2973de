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
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
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
  busy_.store(static_cast<std::uint32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  work(0);
  for (std::uint32_t busy = busy_.load(std::memory_order_acquire); busy != 0;)
    busy = wait_while_equal(busy_, busy);
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
  std::uint32_t seen = 0;
  for (;;) {
    seen = wait_while_equal(generation_, seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    work(thread);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace sluice::kernels
