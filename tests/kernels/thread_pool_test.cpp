#include "kernels/cpu/thread_pool.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

using sluice::kernels::ThreadPool;

TEST_CASE("every item of a loop is done exactly once") {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (const std::size_t count : {0U, 1U, 2U, 15U, 16U, 17U, 1000U})
      for (const std::size_t grain : {0U, 1U, 7U, 16U, 5000U}) {
        CAPTURE(threads, count, grain);
        std::vector<int> done(count, 0);  // plain: chunks must not overlap
        std::atomic<bool> in_order{true};
        pool.for_each_chunk(count, grain,
                            [&](std::size_t begin, std::size_t end, std::size_t thread) {
                              const std::size_t step = grain == 0 ? 1 : grain;
                              if (begin % step != 0 || end > count || end - begin > step ||
                                  thread >= static_cast<std::size_t>(threads))
                                in_order = false;
                              for (std::size_t i = begin; i < end; ++i) ++done[i];
                            });
        CHECK(in_order);
        CHECK(done == std::vector<int>(count, 1));
      }
  }
}

TEST_CASE("results of one loop are seen by the next") {
  ThreadPool pool(3);
  std::vector<long> values(64, 0);
  const long rounds = 5000;
  for (long round = 1; round <= rounds; ++round)
    pool.for_each_chunk(values.size(), 4, [&](std::size_t begin, std::size_t end, std::size_t) {
      for (std::size_t i = begin; i < end; ++i) values[i] += round;
    });
  for (const long v : values) CHECK(v == rounds * (rounds + 1) / 2);
}

TEST_CASE("a pool can be used again after its workers parked") {
  ThreadPool pool(2);
  std::atomic<int> items{0};
  const auto count = [&] {
    pool.for_each_chunk(10, 1, [&](std::size_t, std::size_t, std::size_t) { ++items; });
  };
  count();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  count();
  CHECK(items == 20);
}

TEST_CASE("pools come and go") {
  std::atomic<int> items{0};
  for (int i = 0; i < 50; ++i) {
    const auto pool = std::make_unique<ThreadPool>(1 + i % 4);
    if (i % 3 != 0)
      pool->for_each_chunk(8, 1, [&](std::size_t, std::size_t, std::size_t) { ++items; });
  }
  CHECK(items == 33 * 8);
}
