// Writes small GGUF files for tests, right or deliberately wrong.
//
//   GgufWriter writer;
//   writer.add_string("general.architecture", "llama");
//   writer.add_u32("llama.block_count", 2);
//   writer.add_f32_tensor("token_embd.weight", {64, 100}, values);
//   TempFile file = writer.write_temp();
//   auto source = open_model(file.path());
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::test {

/// A file that is removed with this object.
class TempFile {
 public:
  explicit TempFile(std::string_view content) {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-test-XXXXXX").string();
    const int fd = ::mkstemp(name.data());
    if (fd < 0) throw std::runtime_error("mkstemp failed");
    ::close(fd);
    path_ = name;
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TempFile() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);
  }
  TempFile(TempFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  TempFile& operator=(TempFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Collects metadata and tensors, in order, then lays the file out. The public fields break the
/// promises of the header on purpose when a test sets them.
class GgufWriter {
 public:
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;         ///< used for the layout; add the metadata key yourself
  std::int64_t extra_tensor_count = 0;  ///< added to the true count in the header
  std::int64_t extra_entry_count = 0;

  // Metadata, one entry each.
  void add_u8(std::string_view key, std::uint8_t v) { add_plain(key, 0, v); }
  void add_i8(std::string_view key, std::int8_t v) { add_plain(key, 1, v); }
  void add_u16(std::string_view key, std::uint16_t v) { add_plain(key, 2, v); }
  void add_i16(std::string_view key, std::int16_t v) { add_plain(key, 3, v); }
  void add_u32(std::string_view key, std::uint32_t v) { add_plain(key, 4, v); }
  void add_i32(std::string_view key, std::int32_t v) { add_plain(key, 5, v); }
  void add_f32(std::string_view key, float v) { add_plain(key, 6, v); }
  void add_bool(std::string_view key, bool v) {
    add_plain(key, 7, static_cast<std::uint8_t>(v ? 1 : 0));
  }
  void add_string(std::string_view key, std::string_view v) {
    begin_entry(key, 8);
    put_string(metadata_, v);
  }
  void add_u64(std::string_view key, std::uint64_t v) { add_plain(key, 10, v); }
  void add_i64(std::string_view key, std::int64_t v) { add_plain(key, 11, v); }
  void add_f64(std::string_view key, double v) { add_plain(key, 12, v); }
  void add_strings(std::string_view key, const std::vector<std::string>& values) {
    begin_array(key, 8, values.size());
    for (const std::string& v : values) put_string(metadata_, v);
  }
  void add_i32s(std::string_view key, const std::vector<std::int32_t>& values) {
    begin_array(key, 5, values.size());
    for (const std::int32_t v : values) put(metadata_, v);
  }
  void add_f32s(std::string_view key, const std::vector<float>& values) {
    begin_array(key, 6, values.size());
    for (const float v : values) put(metadata_, v);
  }
  void add_bools(std::string_view key, const std::vector<bool>& values) {
    begin_array(key, 7, values.size());
    for (const bool v : values) put(metadata_, static_cast<std::uint8_t>(v ? 1 : 0));
  }
  /// An entry with any type number and any bytes.
  void add_raw(std::string_view key, std::uint32_t type, std::string_view bytes) {
    begin_entry(key, type);
    metadata_ += bytes;
  }

  // Tensors. shape[0] is the fastest dimension.
  void add_tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                  std::uint32_t gguf_type, std::string_view bytes) {
    pad(data_);
    add_description(name, shape, gguf_type, data_.size());
    data_ += bytes;
  }
  void add_f32_tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                      std::span<const float> values) {
    std::string bytes(values.size_bytes(), '\0');
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), values.size_bytes());
    add_tensor(name, shape, 0, bytes);
  }
  /// A description alone, with any offset; adds no data.
  void add_description(std::string_view name, const std::vector<std::uint64_t>& shape,
                       std::uint32_t gguf_type, std::uint64_t offset) {
    put_string(descriptions_, name);
    put(descriptions_, static_cast<std::uint32_t>(shape.size()));
    for (const std::uint64_t length : shape) put(descriptions_, length);
    put(descriptions_, gguf_type);
    put(descriptions_, offset);
    ++num_tensors_;
  }

  /// The whole file.
  std::string bytes() const {
    std::string out = magic;
    put(out, version);
    put(out, num_tensors_ + static_cast<std::uint64_t>(extra_tensor_count));
    put(out, num_entries_ + static_cast<std::uint64_t>(extra_entry_count));
    out += metadata_;
    out += descriptions_;
    pad(out);
    out += data_;
    return out;
  }
  TempFile write_temp() const { return TempFile(bytes()); }

  template <class T>
  static void put(std::string& out, T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    out.append(raw, sizeof(T));
  }
  static void put_string(std::string& out, std::string_view text) {
    put(out, static_cast<std::uint64_t>(text.size()));
    out += text;
  }

 private:
  void begin_entry(std::string_view key, std::uint32_t type) {
    put_string(metadata_, key);
    put(metadata_, type);
    ++num_entries_;
  }
  void begin_array(std::string_view key, std::uint32_t type, std::size_t count) {
    begin_entry(key, 9);
    put(metadata_, type);
    put(metadata_, static_cast<std::uint64_t>(count));
  }
  template <class T>
  void add_plain(std::string_view key, std::uint32_t type, T value) {
    begin_entry(key, type);
    put(metadata_, value);
  }
  void pad(std::string& out) const {
    while (out.size() % alignment != 0) out += '\0';
  }

  std::uint64_t num_tensors_ = 0;
  std::uint64_t num_entries_ = 0;
  std::string metadata_;
  std::string descriptions_;
  std::string data_;
};

}  // namespace sluice::test
