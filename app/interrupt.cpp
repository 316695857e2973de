#include "app/interrupt.hpp"

#include <csignal>

namespace sluice::app {
namespace {

std::atomic<int> interrupt_count{0};
std::atomic<bool> terminate_seen{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "only lock-free atomics may be touched in a signal handler");

extern "C" void count_signal(int signal) {
  if (signal == SIGINT) {
    interrupt_count.fetch_add(1);
  } else {
    terminate_seen.store(true);
  }
}

void install(void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;  // no SA_RESTART: a blocked read returns, so that the prompt reacts
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptCounter::InterruptCounter() {
  reset();
  install(count_signal, 0);
}

InterruptCounter::~InterruptCounter() {
  install(SIG_DFL, 0);
}

int InterruptCounter::interrupts() const {
  return interrupt_count.load();
}

bool InterruptCounter::terminated() const {
  return terminate_seen.load();
}

void InterruptCounter::reset() {
  interrupt_count.store(0);
}

}  // namespace sluice::app
