// Threads that run one short parallel loop after the other.
//
// A step of a small model consists of hundreds of loops of a few microseconds. Workers therefore
// spin for a short time between two loops before they park. The caller works along and returns
// when all items are done; it waits for the workers that joined the loop, not for those that the
// system did not run in time. Items are handed out in chunks with fixed borders (multiples of
// the grain); which thread takes which chunk is left to chance, so a loop's result must not
// depend on it.
//
// Worked example, 2 threads: for_each_chunk(100, 16, f) calls f(0, 16, t), f(16, 32, t), ...,
// f(96, 100, t), each once, t being 0 (the caller) or 1.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace sluice::kernels {

class ThreadPool {
 public:
  /// `threads` counts the caller; at least 1. Starts threads - 1 workers.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(begin, end, thread) for every chunk of [0, count) and waits for all of them.
  /// `body` must not throw and must not call the pool. Not thread-safe: one caller at a time.
  template <class Body>
  void for_each_chunk(std::size_t count, std::size_t grain, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run({count, grain == 0 ? 1 : grain, std::addressof(body),
         [](const void* context, std::size_t begin, std::size_t end, std::size_t thread) {
           // The body outlives the loop; it was stored as const void* only to pass through.
           (*static_cast<Plain*>(const_cast<void*>(context)))(begin, end, thread);
         }});
  }

 private:
  struct Loop {
    std::size_t count = 0;
    std::size_t grain = 1;
    const void* context = nullptr;
    void (*call)(const void*, std::size_t, std::size_t, std::size_t) = nullptr;
  };

  void run(const Loop& loop);
  void work(std::size_t thread);
  void worker_main(std::size_t thread);

  Loop loop_;  ///< changes only while no worker is in a loop
  // Each on a cache line of its own: they change at different times.
  alignas(64) std::atomic<std::uint32_t> state_{0};     ///< loop number, open flag, workers joined
  alignas(64) std::atomic<std::size_t> next_{0};        ///< first item not handed out yet
  alignas(64) std::atomic<std::uint32_t> finished_{0};  ///< joined workers that are done
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

}  // namespace sluice::kernels
