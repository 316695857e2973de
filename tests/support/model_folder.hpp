// Writes small Hugging Face folders for tests, right or deliberately wrong.
//
//   TempFolder folder;
//   folder.write("config.json", R"({"model_type": "llama", ...})");
//   SafetensorsWriter weights;
//   weights.add_f32("model.norm.weight", {64}, values);
//   folder.write("model.safetensors", weights.bytes());
//   auto source = open_model(folder.path());
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::test {

/// A folder that is removed with this object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(std::string_view name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

 private:
  std::filesystem::path path_;
};

/// Lays tensors out one after the other. `header` can be replaced to break the promises.
class SafetensorsWriter {
 public:
  bool padded = true;  ///< the header is filled up so that the data starts at a multiple of 8

  void add(std::string_view name, std::string_view type, const std::vector<std::int64_t>& shape,
           std::string_view bytes) {
    header_ += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                           header_.empty() ? "" : ",", name, type, fmt::join(shape, ","),
                           data_.size(), data_.size() + bytes.size());
    data_ += bytes;
  }
  void add_f32(std::string_view name, const std::vector<std::int64_t>& shape,
               std::span<const float> values) {
    std::string bytes(values.size_bytes(), '\0');
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), values.size_bytes());
    add(name, "F32", shape, bytes);
  }

  std::string bytes() const { return with_header("{" + header_ + "}", data_, padded); }

  /// A file of this header and these data.
  static std::string with_header(std::string header, std::string_view data, bool padded = true) {
    while (padded && header.size() % 8 != 0) header += ' ';
    const std::uint64_t length = header.size();
    std::string out(sizeof length, '\0');
    std::memcpy(out.data(), &length, sizeof length);
    return out + header + std::string(data);
  }

 private:
  std::string header_;
  std::string data_;
};

}  // namespace sluice::test
