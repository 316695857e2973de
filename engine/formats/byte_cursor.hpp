// Reads little-endian values from untrusted bytes, never past their end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace sluice {

static_assert(std::endian::native == std::endian::little,
              "model files are little-endian and are used in place");

/// A position in a byte range. The caller supplies what to do when the range ends early, as a
/// function that throws; `what` names the thing that was being read.
class ByteCursor {
 public:
  using OnEnd = void (*)(const std::string& path, std::size_t offset, std::string_view what);

  ByteCursor(std::span<const std::byte> bytes, std::string path, OnEnd on_end)
      : bytes_(bytes), path_(std::move(path)), on_end_(on_end) {}

  std::size_t offset() const { return offset_; }
  std::size_t remaining() const { return bytes_.size() - offset_; }

  /// Calls on_end unless `n` more bytes are there.
  void require(std::uint64_t n, std::string_view what) const {
    if (n > remaining()) on_end_(path_, offset_, what);
  }

  template <class T>
  T read(std::string_view what) {
    static_assert(std::is_arithmetic_v<T>);
    require(sizeof(T), what);
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  /// A view of the next `n` bytes as text.
  std::string_view read_text(std::uint64_t n, std::string_view what) {
    require(n, what);
    const auto length = static_cast<std::size_t>(n);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + offset_), length);
    offset_ += length;
    return text;
  }

 private:
  std::span<const std::byte> bytes_;
  std::string path_;
  OnEnd on_end_;
  std::size_t offset_ = 0;
};

}  // namespace sluice
