// The matcher must not allocate while text flows. Counted by replacing operator new for the
// whole test program; sanitizers bring their own, so this is left out there.
#include <catch2/catch.hpp>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/stream/scope_matcher.hpp"
#include "engine/stream/stop_matcher.hpp"
#include "tests/engine/stream/random_text.hpp"

namespace {
std::atomic<std::size_t> allocations{0};
}

// Not inlined: GCC else sees malloc meet delete and warns.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

using namespace sluice;
using namespace sluice::test;

TEST_CASE("feeding text allocates nothing") {
  RandomText random(4);
  std::vector<StopString> strings = random.stop_strings(64, true);
  for (StopString& string : strings) string.text += "~";  // text below never has it: no match
  const std::string text = random.text(500);
  const std::optional<ReasoningMarkers> markers = ReasoningMarkers{"ab", "ba"};

  StopMatcher matcher(strings);
  const std::vector<StopPattern> patterns = {{"(a|b)+.*\\n~", StopScope::kBoth}, {"a[^b]{3,9}~"}};
  ScopeMatcher scopes(strings, patterns, markers);
  std::size_t held = 0;
  const std::size_t before = allocations;
  for (std::size_t i = 0; i < text.size(); i += 3) {
    const std::string_view piece = std::string_view(text).substr(i, 3);
    if (matcher.feed(piece) || scopes.feed(piece)) break;
    held += i + piece.size() - matcher.safe_end();
  }
  const std::size_t after = allocations;
  CHECK(after == before);
  CHECK(held > 0);

  const auto counted = std::make_unique<std::string>(100, 'x');  // the counter counts
  CHECK(allocations > after);
}

#endif
