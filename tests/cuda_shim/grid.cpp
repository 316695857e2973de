#include "tests/cuda_shim/grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "tests/cuda_shim/cuda_shim.hpp"
#include "tests/cuda_shim/fibers.hpp"
#include "tests/cuda_shim/memory.hpp"

namespace sluice::cuda_shim {
namespace {

constexpr int kWarp = 32;
constexpr std::size_t kSharedLimit = std::size_t{228} << 10;  // of a Hopper multiprocessor
constexpr int kThreadLimit = 1024;

/// A warp operation that some lanes have reached.
struct Meeting {
  unsigned mask = 0;  ///< 0: nobody is here
  unsigned here = 0;
  Place place;
};

struct Warp {
  std::array<Meeting, kWarp> meetings;  ///< by the lowest lane of the mask
  std::array<std::uint64_t, kWarp> brought;
  std::array<std::uint64_t, kWarp> seen;
};

std::string name_of(Place place) {
  const std::string_view file = place.file;
  const std::size_t slash = file.find_last_of('/');
  return fmt::format("{}:{}", slash == file.npos ? file : file.substr(slash + 1), place.line);
}

std::string name_of(dim3 index) {
  return fmt::format("({}, {}, {})", index.x, index.y, index.z);
}

/// The machine: one block at a time.
class Machine {
 public:
  bool run(const char* name, dim3 grid, int threads, std::size_t shared_bytes, const BodyRef& body);
  void sync(Place place);
  const std::uint64_t* meet(Place place, unsigned mask, std::uint64_t value);
  /// Keeps a fault of the running thread; the launch has failed.
  void keep(const std::string& what);
  /// Ends the launch from inside a fiber. What stands on its stack is dropped, not destroyed.
  [[noreturn]] void abandon() { fibers_.abandon(); }
  bool in_fiber() const { return fibers_.running() >= 0; }

  std::mutex mutex;
  std::vector<std::string> faults;
  Order order = Order::kAscending;
  std::mt19937_64 random;  // NOLINT: the same numbers each time are wanted
  Statistics statistics;

 private:
  void run_block(std::size_t shared_bytes, const BodyRef& body);
  void look_for_waiting();
  std::vector<int> next_order(int count);
  void set_thread(int thread) { current.thread = dim3(static_cast<unsigned>(thread), 0, 0); }
  void wait_here(Place place);

  Fibers fibers_;
  GuardedPages shared_{kSharedLimit};
  std::vector<Warp> warps_;
  std::vector<Place> waits_at_;  ///< for each thread
  const char* name_ = "";
  int threads_ = 0;
  int at_barrier_ = 0;
  Place barrier_;
  bool failed_ = false;
};

Machine& machine() {
  static Machine only;
  return only;
}

// -- addresses that can't be reached --------------------------------------------------------------

void on_bad_address(int signal, siginfo_t* info, void*) {
  if (machine().in_fiber()) {
    machine().keep(fmt::format("access {}", describe_address(info->si_addr)));
    machine().abandon();
  }
  std::signal(signal, SIG_DFL);  // not a kernel's: happens again, and ends the program
}

/// For the time of a launch such signals become faults.
class SignalGuard {
 public:
  SignalGuard() {
    static std::vector<unsigned char> stack(std::size_t{256} << 10);
    stack_t mine{};
    mine.ss_sp = stack.data();
    mine.ss_size = stack.size();
    sigaltstack(&mine, &old_stack_);
    struct sigaction action {};
    action.sa_sigaction = on_bad_address;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &old_segv_);
    sigaction(SIGBUS, &action, &old_bus_);
  }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  ~SignalGuard() {
    sigaction(SIGSEGV, &old_segv_, nullptr);
    sigaction(SIGBUS, &old_bus_, nullptr);
    sigaltstack(&old_stack_, nullptr);
  }

 private:
  stack_t old_stack_{};
  struct sigaction old_segv_ {};
  struct sigaction old_bus_ {};
};

// -- a grid ---------------------------------------------------------------------------------------

bool Machine::run(const char* name, dim3 grid, int threads, std::size_t shared_bytes,
                  const BodyRef& body) {
  const std::lock_guard lock(mutex);
  name_ = name;
  failed_ = false;
  threads_ = threads;
  current = {};
  ++statistics.launches;
  if (threads < kWarp || threads > kThreadLimit || threads % kWarp != 0 ||
      shared_bytes > kSharedLimit || grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 ||
      grid.z > 65535) {
    keep(fmt::format("can't run a grid of {} with {} threads and {} bytes of shared memory",
                     name_of(grid), threads, shared_bytes));
    return false;
  }
  const SignalGuard signals;
  current.grid_dim = grid;
  current.block_dim = dim3(static_cast<unsigned>(threads), 1, 1);
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  for (std::uint64_t i = 0; i < blocks && !failed_; ++i) {
    const std::uint64_t block = order == Order::kDescending ? blocks - 1 - i : i;
    current.block =
        dim3(static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x % grid.y),
             static_cast<unsigned>(block / grid.x / grid.y));
    run_block(shared_bytes, body);
  }
  statistics.switches = fibers_.switches();
  if (const auto damage = damaged_margin(); damage && !failed_) keep(*damage);
  return !failed_;
}

void Machine::run_block(std::size_t shared_bytes, const BodyRef& body) {
  ++statistics.blocks;
  statistics.threads += static_cast<std::uint64_t>(threads_);
  const std::size_t rounded = (shared_bytes + 15) / 16 * 16;
  current.shared = shared_.end() - rounded;
  std::memset(current.shared, 0xCD, rounded);
  at_barrier_ = 0;
  for (Warp& warp : warps_)
    for (Meeting& meeting : warp.meetings) meeting.mask = 0;
  warps_.resize(static_cast<std::size_t>(threads_ / kWarp));
  waits_at_.resize(static_cast<std::size_t>(threads_));
  const auto thread = [&] {
    set_thread(fibers_.running());
    body();
  };
  const auto turn = order == Order::kAscending ? Fibers::Turn::kWarp : Fibers::Turn::kFirst;
  fibers_.run(threads_, next_order(threads_), turn, BodyRef(thread));
  if (!failed_) look_for_waiting();
}

std::vector<int> Machine::next_order(int count) {
  std::vector<int> result(static_cast<std::size_t>(count));
  std::iota(result.begin(), result.end(), 0);
  if (order == Order::kDescending) std::reverse(result.begin(), result.end());
  if (order == Order::kShuffled) std::shuffle(result.begin(), result.end(), random);
  return result;
}

/// After a block: nobody may be left waiting.
void Machine::look_for_waiting() {
  if (fibers_.num_ended() == threads_) return;
  std::optional<int> waiting;
  std::optional<int> elsewhere;
  for (int i = 0; i < threads_; ++i) {
    if (!fibers_.waits(i)) continue;
    if (!waiting)
      waiting = i;
    else if (!(waits_at_[static_cast<std::size_t>(i)] ==
               waits_at_[static_cast<std::size_t>(*waiting)]))
      elsewhere = elsewhere.value_or(i);
  }
  const auto place = [&](int thread) {
    return name_of(waits_at_[static_cast<std::size_t>(thread)]);
  };
  set_thread(*waiting);
  std::string what = fmt::format("waits at {} for threads that never come", place(*waiting));
  if (elsewhere) what += fmt::format("; thread {} waits at {}", *elsewhere, place(*elsewhere));
  if (fibers_.num_ended() > 0) what += fmt::format("; {} have ended", fibers_.num_ended());
  keep(what);
}

void Machine::keep(const std::string& what) {
  failed_ = true;
  faults.push_back(fmt::format("{}, block {}, thread {}: {}", name_, name_of(current.block),
                               current.thread.x, what));
}

// -- waiting --------------------------------------------------------------------------------------

void Machine::wait_here(Place place) {
  const int self = fibers_.running();
  waits_at_[static_cast<std::size_t>(self)] = place;
  fibers_.wait();
  set_thread(self);
}

void Machine::sync(Place place) {
  if (at_barrier_ == 0) barrier_ = place;
  if (!(barrier_ == place)) {
    keep(fmt::format("reaches the barrier at {} while others wait at {}", name_of(place),
                     name_of(barrier_)));
    abandon();
  }
  if (++at_barrier_ < threads_) return wait_here(place);
  at_barrier_ = 0;
  for (int i = 0; i < threads_; ++i) fibers_.wake(i);
  if (order == Order::kShuffled) fibers_.reorder(next_order(threads_));
}

const std::uint64_t* Machine::meet(Place place, unsigned mask, std::uint64_t value) {
  const int self = fibers_.running();
  const auto lane = static_cast<unsigned>(self % kWarp);
  Warp& warp = warps_[static_cast<std::size_t>(self / kWarp)];
  if ((mask >> lane & 1U) == 0) fault_at(place, "a lane is not in the mask of its warp operation");
  Meeting& meeting = warp.meetings[static_cast<std::size_t>(__builtin_ctz(mask))];
  if (meeting.mask == 0) meeting = {mask, 0, place};
  if (meeting.mask != mask || !(meeting.place == place)) {
    keep(fmt::format("reaches the warp operation at {} while other lanes wait at {}",
                     name_of(place), name_of(meeting.place)));
    abandon();
  }
  warp.brought[lane] = value;
  meeting.here |= 1U << lane;
  if (meeting.here != mask) {
    wait_here(place);
    return warp.seen.data();
  }
  meeting.mask = 0;
  for (unsigned i = 0; i < kWarp; ++i) {
    if ((mask >> i & 1U) == 0) continue;
    warp.seen[i] = warp.brought[i];
    if (i != lane) fibers_.wake(self - static_cast<int>(lane) + static_cast<int>(i));
  }
  return warp.seen.data();
}

}  // namespace

bool run_grid(const char* name, dim3 grid, int threads, std::size_t shared_bytes, BodyRef body) {
  return machine().run(name, grid, threads, shared_bytes, body);
}

void sync_threads(Place place) {
  machine().sync(place);
}

const std::uint64_t* meet(Place place, unsigned mask, std::uint64_t value) {
  return machine().meet(place, mask, value);
}

void fault_at(Place place, const char* what) {
  machine().keep(fmt::format("{} ({})", what, name_of(place)));
  machine().abandon();
}

std::vector<std::string> take_faults() {
  const std::lock_guard lock(machine().mutex);
  return std::exchange(machine().faults, {});
}

void set_order(Order order, std::uint64_t seed) {
  const std::lock_guard lock(machine().mutex);
  machine().order = order;
  machine().random.seed(seed);
}

Statistics statistics() {
  const std::lock_guard lock(machine().mutex);
  return machine().statistics;
}

}  // namespace sluice::cuda_shim
