// Memory straight from the system: zero, aligned to pages, taken only as it is touched.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

namespace sluice {

class MappedMemory {
 public:
  MappedMemory() = default;
  /// Reserves `bytes`. Throws Error(kDoesNotFit) that says what it was `purpose`d for.
  MappedMemory(std::size_t bytes, std::string_view purpose);
  ~MappedMemory();
  MappedMemory(MappedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  /// Asks for large pages, for memory that is read over and over from end to end.
  void use_large_pages() const;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace sluice
