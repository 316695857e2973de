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

constexpr int kWarp = 32;

Fibers* active = nullptr;  // whose fibers run; fibers are entered without an argument

}  // namespace

StackPool::~StackPool() {
  if (memory_ != nullptr) munmap(memory_, kCount * kApart);
}

StackPool::Stack StackPool::stack(std::size_t index) {
  if (memory_ == nullptr) {
    void* const memory = mmap(nullptr, kCount * kApart, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<unsigned char*>(memory);
  }
  return {memory_ + index * kApart, kApart - index * 448 % kPage};
}

void StackPool::clean() {
#if defined(__SANITIZE_ADDRESS__)
  if (memory_ != nullptr) __asan_unpoison_memory_region(memory_, kCount * kApart);
#endif
}

void Fibers::run(int count, const std::vector<int>& order, Turn turn, const BodyRef& body) {
  turn_ = turn;
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
}

void Fibers::start(int fiber) {
  Context& context = contexts_[index(fiber)];
  const StackPool::Stack stack = stacks_.stack(index(fiber));
  context.stack_bottom = stack.bottom;
  context.stack_bytes = stack.bytes;
  context.saved = make_fcontext(stack.bottom + stack.bytes, stack.bytes, &Fibers::entry);
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
  if (turn_ == Turn::kFirst) {
    for (const int fiber : order_)
      if (states_[index(fiber)] == State::kReady) return fiber;
    return -1;
  }
  // Round and round in the warp first: its 32 stacks fit into the cache, those of a block do not.
  const int count = static_cast<int>(order_.size());
  const int warp = running_ / kWarp * kWarp;
  for (int i = 1; i <= kWarp; ++i) {
    const int fiber = warp + (running_ + i) % kWarp;
    if (fiber < count && states_[index(fiber)] == State::kReady) return fiber;
  }
  for (int i = kWarp; i < count; ++i) {
    const int fiber = (warp + i) % count;
    if (states_[index(fiber)] == State::kReady) return fiber;
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
