// A whole file in memory, read-only, given back on destruction.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace sluice {

/// Maps a regular file. The pages are shared with other processes and read on first touch, so
/// opening a file of any size is instant. The file must not be shortened while it is mapped.
class MappedFile {
 public:
  /// Throws Error: kNotFound (no such file), kUnsupported (not a regular file), kIo.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Empty for an empty file.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void unmap() noexcept;

  std::span<const std::byte> bytes_;
};

/// Lets the system take back the memory of whole pages inside `part`, which must belong to a
/// MappedFile; they are read again when they are touched.
void release_pages(std::span<const std::byte> part) noexcept;

}  // namespace sluice
