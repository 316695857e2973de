#include "bench/server/watched_backend.hpp"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace sluice::bench {
namespace {

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Ids of this process's threads.
std::vector<int> thread_ids() {
  std::vector<int> ids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const std::string name = entry.path().filename().string();
    int id = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), id).ec == std::errc{})
      ids.push_back(id);
  }
  std::ranges::sort(ids);
  return ids;
}

/// Processor time of a thread: the first number of its schedstat, in nanoseconds.
double seconds_of(int thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/schedstat");
  double nanoseconds = 0;
  file >> nanoseconds;
  return file ? nanoseconds * 1e-9 : 0.0;
}

double seconds_of(const std::vector<int>& threads) {
  double sum = 0;
  for (const int thread : threads) sum += seconds_of(thread);
  return sum;
}

class WatchedBackend final : public Backend {
 public:
  WatchedBackend(std::unique_ptr<Backend> inner, std::shared_ptr<StepWatch> watch)
      : inner_(std::move(inner)), watch_(std::move(watch)) {}

  void allocate_pool(const KvPoolShape& shape) override { inner_->allocate_pool(shape); }
  StepResult step(const StepBatch& batch) noexcept override {
    watch_->begin();
    StepResult result = inner_->step(batch);
    watch_->end(batch);
    return result;
  }
  BackendMemory memory() const override { return inner_->memory(); }
  std::string description() const override { return inner_->description(); }

 private:
  std::unique_ptr<Backend> inner_;
  std::shared_ptr<StepWatch> watch_;
};

class NullBackend final : public Backend {
 public:
  explicit NullBackend(TokenId token) : token_(token) {}
  void allocate_pool(const KvPoolShape&) override {}
  StepResult step(const StepBatch& batch) noexcept override {
    StepResult result;
    result.number = batch.number;
    result.slices.resize(batch.slices.size());
    for (std::size_t i = 0; i < batch.slices.size(); ++i) {
      result.slices[i].sequence = batch.slices[i].sequence;
      if (batch.slices[i].sample) result.slices[i].token = SampledToken{token_, -0.5F, 0.6F, {}};
    }
    return result;
  }
  BackendMemory memory() const override { return {}; }
  std::string description() const override { return "nothing"; }

 private:
  TokenId token_;
};

}  // namespace

void StepWatch::begin() {
  const std::lock_guard lock(mutex_);
  cpu_at_begin_ = thread_seconds();
  began_ = Clock::now();
}

void StepWatch::end(const StepBatch& batch) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - began_).count();
  executor_cpu_ += thread_seconds() - cpu_at_begin_;
  times_.step_seconds += seconds;
  ++times_.steps;
  const bool drawing = std::ranges::all_of(batch.slices, [](const StepSlice& slice) {
    return slice.sample && slice.tokens.size() == 1;
  });
  const std::size_t slices = drawing ? batch.slices.size() : 0;
  if (slices > 0 && slices == slices_before_) {
    times_.between_seconds += std::chrono::duration<double>(began_ - ended_).count();
    times_.paired_step_seconds += seconds;
    ++times_.pairs;
  }
  slices_before_ = slices;
  ended_ = now;
}

void StepWatch::add_workers(std::vector<int> thread_ids) {
  const std::lock_guard lock(mutex_);
  workers_ = std::move(thread_ids);
}

void StepWatch::reset() {
  const std::lock_guard lock(mutex_);
  times_ = {};
  executor_cpu_ = 0;
  slices_before_ = 0;
  workers_before_ = seconds_of(workers_);
}

StepTimes StepWatch::times() const {
  const std::lock_guard lock(mutex_);
  StepTimes times = times_;
  times.cpu_seconds = executor_cpu_ + seconds_of(workers_) - workers_before_;
  return times;
}

std::unique_ptr<Backend> make_watched_backend(const std::function<std::unique_ptr<Backend>()>& make,
                                              std::shared_ptr<StepWatch> watch) {
  const std::vector<int> before = thread_ids();
  std::unique_ptr<Backend> inner = make();
  std::vector<int> workers;
  std::ranges::set_difference(thread_ids(), before, std::back_inserter(workers));
  watch->add_workers(std::move(workers));
  return std::make_unique<WatchedBackend>(std::move(inner), std::move(watch));
}

std::unique_ptr<Backend> make_null_backend(TokenId token) {
  return std::make_unique<NullBackend>(token);
}

}  // namespace sluice::bench
