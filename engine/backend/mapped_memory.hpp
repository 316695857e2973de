// Memory straight from the system: zero, aligned to pages, taken only as it is touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>
#include <utility>

namespace sluice {

class MappedMemory {
 public:
  MappedMemory() = default;
  /// Reserves `bytes`. Throws Error(kDoesNotFit) that says what it was `purpose`d for.
  MappedMemory(std::size_t bytes, std::string_view purpose);
  /// The same in a file made for it: pages that are not in use leave main memory. The file has no
  /// name any more afterwards, so it goes with this object whatever happens. Its blocks are taken
  /// from the disk at once. Throws Error: kIo, kDoesNotFit (no room on the disk).
  static MappedMemory in_file(std::size_t bytes, const std::filesystem::path& path);
  ~MappedMemory();
  MappedMemory(MappedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace sluice
