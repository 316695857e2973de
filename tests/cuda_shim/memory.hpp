// Buffers between guard pages.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace sluice::cuda_shim {

/// Pages with a guard page on either side; the usable bytes end where the second one starts.
class GuardedPages {
 public:
  GuardedPages() = default;
  /// Throws std::bad_alloc.
  explicit GuardedPages(std::size_t bytes);
  GuardedPages(GuardedPages&& other) noexcept;
  GuardedPages& operator=(GuardedPages&& other) noexcept;
  ~GuardedPages();

  unsigned char* first_page() const { return pages_; }
  unsigned char* end() const { return pages_ + page_bytes_; }
  std::size_t page_bytes() const { return page_bytes_; }  ///< of the usable pages

 private:
  unsigned char* pages_ = nullptr;
  std::size_t page_bytes_ = 0;
};

/// Which buffer an address that can't be reached belongs to, as the end of a sentence.
std::string describe_address(const void* address);

/// A sentence when bytes around a buffer were changed; they are put right again.
std::optional<std::string> damaged_margin();

}  // namespace sluice::cuda_shim
