#include "tests/cuda_shim/fibers.hpp"

#include <sys/mman.h>

#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace sluice::cuda_shim {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

Fibers* active = nullptr;  // whose fibers run; fibers are entered without an argument

}  // namespace

StackPool::~StackPool() {
  for (unsigned char* stack : stacks_) munmap(stack, kBytes);
}

unsigned char* StackPool::stack(std::size_t index) {
  while (stacks_.size() <= index) {
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    stacks_.push_back(static_cast<unsigned char*>(memory));
  }
  return stacks_[index];
}

void StackPool::clean() {
#if defined(__SANITIZE_ADDRESS__)
  for (unsigned char* stack : stacks_) __asan_unpoison_memory_region(stack, kBytes);
#endif
}

void Fibers::run(int count, const std::vector<int>& order, Turn turn, const BodyRef& body) {
  turn_ = turn;
  place_in_order_.resize(index(count));
  reorder(order);
  body_ = &body;
  num_ended_ = 0;
  contexts_.resize(index(count));
  states_.assign(index(count), State::kReady);
  for (int i = 0; i < count; ++i) start(i);
  active = this;
  running_ = order_.front();
  switch_to(main_, contexts_[index(running_)], false);
  running_ = -1;
  if (num_ended_ < count) stacks_.clean();
}

void Fibers::reorder(const std::vector<int>& order) {
  order_ = order;
  for (std::size_t i = 0; i < order_.size(); ++i)
    place_in_order_[index(order_[i])] = static_cast<int>(i);
}

void Fibers::start(int fiber) {
  Context& context = contexts_[index(fiber)];
  unsigned char* const bottom = stacks_.stack(index(fiber));
  context.stack_bottom = bottom;
  context.stack_bytes = StackPool::kBytes;
  context.saved = make_fcontext(bottom + StackPool::kBytes, StackPool::kBytes, &Fibers::entry);
}

void Fibers::entry(transfer_t from) {
  arrived(from);
  Fibers& fibers = *active;
  (*fibers.body_)();
  fibers.states_[index(fibers.running_)] = State::kEnded;
  ++fibers.num_ended_;
  fibers.leave();
}

void Fibers::wait() {
  states_[index(running_)] = State::kWaits;
  leave();
}

void Fibers::wake(int fiber) {
  states_[index(fiber)] = State::kReady;
}

void Fibers::abandon() {
  switch_to(contexts_[index(running_)], main_, true);
  __builtin_unreachable();
}

int Fibers::next_ready() const {
  const std::size_t count = order_.size();
  std::size_t at = turn_ == Turn::kFirst ? count - 1 : index(place_in_order_[index(running_)]);
  for (std::size_t i = 0; i < count; ++i) {
    at = at + 1 < count ? at + 1 : 0;
    if (states_[index(order_[at])] == State::kReady) return order_[at];
  }
  return -1;
}

void Fibers::leave() {
  const int self = running_;
  const int next = next_ready();
  const bool ends = states_[index(self)] == State::kEnded;
  if (next == self) return;
  running_ = next;
  switch_to(contexts_[index(self)], next < 0 ? main_ : contexts_[index(next)], ends);
  running_ = self;
}

void Fibers::switch_to(Context& from, Context& to, bool from_ends) {
  ++switches_;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(from_ends ? nullptr : &fake_stack, to.stack_bottom,
                                 to.stack_bytes);
  const transfer_t back = jump_fcontext(to.saved, &from);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
  static_cast<Context*>(back.data)->saved = back.fctx;
#else
  static_cast<void>(from_ends);
  const transfer_t back = jump_fcontext(to.saved, &from);
  static_cast<Context*>(back.data)->saved = back.fctx;
#endif
}

/// The first words of a new fiber: remembers where it was entered from.
void Fibers::arrived(transfer_t from) {
  auto* const previous = static_cast<Context*>(from.data);
  previous->saved = from.fctx;
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
  if (previous == &active->main_) {
    previous->stack_bottom = bottom;
    previous->stack_bytes = bytes;
  }
#endif
}

}  // namespace sluice::cuda_shim
