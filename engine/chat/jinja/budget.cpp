#include "engine/chat/jinja/budget.hpp"

#include <string>

#include "engine/chat/jinja/failure.hpp"

namespace sluice::jinja {

void Budget::fail_work() const {
  throw Failure(FailureKind::kLimit, "the template takes too long to render");
}

void Budget::fail_allocation() const {
  throw Failure(FailureKind::kLimit, "the template needs more than " +
                                         std::to_string(limits_.max_allocated_bytes >> 20) +
                                         " MiB of memory to render");
}

void Budget::fail_length() const {
  throw Failure(FailureKind::kLimit, "the template makes a text of more than " +
                                         std::to_string(limits_.max_output_bytes >> 20) + " MiB");
}

void Budget::fail_depth() {
  --depth_;  // the level's destructor will not run
  throw Failure(FailureKind::kLimit, "maximum recursion depth exceeded (" +
                                         std::to_string(limits_.max_depth) + " levels)");
}

}  // namespace sluice::jinja
