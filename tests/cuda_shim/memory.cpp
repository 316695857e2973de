#include "tests/cuda_shim/memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "tests/cuda_shim/cuda_shim.hpp"

namespace sluice::cuda_shim {
namespace {

constexpr unsigned char kFresh = 0xCD;   // what nobody has written yet
constexpr unsigned char kMargin = 0xFD;  // what nobody may write
constexpr std::size_t kAlignment = 16;
constexpr std::size_t kMarginBefore = 256;  // looked at after each launch

std::size_t round_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

struct Buffer {
  GuardedPages pages;
  std::size_t bytes = 0;
  unsigned char* begin() const { return pages.end() - round_up(bytes, kAlignment); }

  /// Calls f(first, count) for the parts around the buffer that must stay as they are.
  template <class F>
  void margins(const F& f) const {
    const auto before = static_cast<std::size_t>(begin() - pages.first_page());
    const std::size_t looked_at = std::min(before, kMarginBefore);
    f(begin() - looked_at, looked_at);
    f(begin() + bytes, static_cast<std::size_t>(pages.end() - begin()) - bytes);
  }
};

struct Buffers {
  std::mutex mutex;
  std::map<const unsigned char*, Buffer> by_begin;
  std::size_t bytes = 0;
};

Buffers& buffers() {
  static Buffers all;
  return all;
}

}  // namespace

GuardedPages::GuardedPages(std::size_t bytes)
    : page_bytes_(std::max(round_up(bytes, page_size()), page_size())) {
  void* const all = mmap(nullptr, page_bytes_ + 2 * page_size(), PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) throw std::bad_alloc();
  pages_ = static_cast<unsigned char*>(all) + page_size();
  if (mprotect(pages_, page_bytes_, PROT_READ | PROT_WRITE) != 0) {
    munmap(all, page_bytes_ + 2 * page_size());
    throw std::bad_alloc();
  }
}

GuardedPages::GuardedPages(GuardedPages&& other) noexcept
    : pages_(std::exchange(other.pages_, nullptr)),
      page_bytes_(std::exchange(other.page_bytes_, 0)) {}

GuardedPages& GuardedPages::operator=(GuardedPages&& other) noexcept {
  std::swap(pages_, other.pages_);
  std::swap(page_bytes_, other.page_bytes_);
  return *this;
}

GuardedPages::~GuardedPages() {
  if (pages_ != nullptr) munmap(pages_ - page_size(), page_bytes_ + 2 * page_size());
}

void* allocate(std::size_t bytes) {
  Buffer buffer{GuardedPages(bytes), bytes};
  unsigned char* const begin = buffer.begin();
  if (bytes > 0) std::memset(begin, kFresh, bytes);
  buffer.margins([](unsigned char* first, std::size_t n) { std::memset(first, kMargin, n); });
  const std::lock_guard lock(buffers().mutex);
  buffers().bytes += bytes;
  buffers().by_begin.emplace(begin, std::move(buffer));
  return begin;
}

void release(void* memory) {
  if (memory == nullptr) return;
  const std::lock_guard lock(buffers().mutex);
  const auto found = buffers().by_begin.find(static_cast<unsigned char*>(memory));
  if (found == buffers().by_begin.end()) return;
  buffers().bytes -= found->second.bytes;
  buffers().by_begin.erase(found);
}

std::size_t allocated_bytes() {
  const std::lock_guard lock(buffers().mutex);
  return buffers().bytes;
}

std::string describe_address(const void* address) {
  const auto* const at = static_cast<const unsigned char*>(address);
  const auto distance = [](const unsigned char* from, const unsigned char* to) {
    return reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
  };
  const std::lock_guard lock(buffers().mutex);
  for (const auto& [begin, buffer] : buffers().by_begin) {
    const unsigned char* const end = buffer.pages.end();
    if (at >= end && at < end + page_size())
      return fmt::format("{} bytes behind the end of a buffer of {} bytes",
                         distance(begin + buffer.bytes, at), buffer.bytes);
    if (at < buffer.pages.first_page() && at + page_size() >= buffer.pages.first_page())
      return fmt::format("{} bytes before the start of a buffer of {} bytes", distance(at, begin),
                         buffer.bytes);
  }
  return fmt::format("address {}, which is in no buffer", fmt::ptr(address));
}

std::optional<std::string> damaged_margin() {
  std::optional<std::string> found;
  const std::lock_guard lock(buffers().mutex);
  for (const auto& [begin, buffer] : buffers().by_begin) {
    buffer.margins([&, start = begin, bytes = buffer.bytes](unsigned char* first, std::size_t n) {
      for (std::size_t i = 0; i < n; ++i) {
        if (first[i] == kMargin) continue;
        const bool before = first < start;
        if (!found)
          found = fmt::format("write {} bytes {} of a buffer of {} bytes",
                              before ? static_cast<std::size_t>(start - first) - i : i,
                              before ? "before the start" : "behind the end", bytes);
        first[i] = kMargin;
      }
    });
  }
  return found;
}

}  // namespace sluice::cuda_shim
