#include "engine/formats/gguf_file_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>
#include <variant>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

constexpr std::uint64_t kAlignment = 32;  // what the format has when nothing is said

std::uint64_t padding_after(std::uint64_t size) {
  return (kAlignment - size % kAlignment) % kAlignment;
}

template <class T>
void put(std::string& out, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  out.append(raw, sizeof(T));
}

void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint64_t>(text.size()));
  out += text;
}

/// Appends type number and value.
class ValueWriter {
 public:
  explicit ValueWriter(std::string& out) : out_(out) {}

  void operator()(bool value) const {
    put(out_, kBool);
    put(out_, static_cast<std::uint8_t>(value ? 1 : 0));
  }
  void operator()(std::int64_t value) const {
    if (std::in_range<std::uint32_t>(value)) return typed(kU32, static_cast<std::uint32_t>(value));
    if (std::in_range<std::int32_t>(value)) return typed(kI32, static_cast<std::int32_t>(value));
    typed(kI64, value);
  }
  void operator()(std::uint64_t value) const { typed(kU64, value); }
  void operator()(double value) const { typed(kF32, static_cast<float>(value)); }
  void operator()(const std::string& value) const {
    put(out_, kString);
    put_text(out_, value);
  }
  void operator()(const std::vector<bool>& values) const {
    begin(kBool, values.size());
    for (const bool value : values) put(out_, static_cast<std::uint8_t>(value ? 1 : 0));
  }
  void operator()(const std::vector<std::int64_t>& values) const {
    const bool narrow = std::all_of(values.begin(), values.end(), [](std::int64_t value) {
      return std::in_range<std::int32_t>(value);
    });
    begin(narrow ? kI32 : kI64, values.size());
    for (const std::int64_t value : values) {
      if (narrow) {
        put(out_, static_cast<std::int32_t>(value));
      } else {
        put(out_, value);
      }
    }
  }
  void operator()(const std::vector<double>& values) const {
    begin(kF32, values.size());
    for (const double value : values) put(out_, static_cast<float>(value));
  }
  void operator()(const std::vector<std::string>& values) const {
    begin(kString, values.size());
    for (const std::string& value : values) put_text(out_, value);
  }

 private:
  // Value types of the format, by number.
  static constexpr std::uint32_t kU32 = 4;
  static constexpr std::uint32_t kI32 = 5;
  static constexpr std::uint32_t kF32 = 6;
  static constexpr std::uint32_t kBool = 7;
  static constexpr std::uint32_t kString = 8;
  static constexpr std::uint32_t kArray = 9;
  static constexpr std::uint32_t kU64 = 10;
  static constexpr std::uint32_t kI64 = 11;

  template <class T>
  void typed(std::uint32_t type, T value) const {
    put(out_, type);
    put(out_, value);
  }
  void begin(std::uint32_t type, std::size_t count) const {
    put(out_, kArray);
    put(out_, type);
    put(out_, static_cast<std::uint64_t>(count));
  }

  std::string& out_;
};

/// Everything before the tensor data, padded.
std::string header_bytes(const MetadataMap& metadata, const std::vector<GgufTensorInfo>& tensors) {
  std::string out = "GGUF";
  put(out, std::uint32_t{3});
  put(out, static_cast<std::uint64_t>(tensors.size()));
  put(out, static_cast<std::uint64_t>(metadata.size()));
  for (const auto& [key, value] : metadata) {
    put_text(out, key);
    std::visit(ValueWriter(out), value);
  }
  std::uint64_t offset = 0;
  for (const GgufTensorInfo& tensor : tensors) {
    put_text(out, tensor.name);
    put(out, static_cast<std::uint32_t>(tensor.shape.size()));
    for (const std::int64_t length : tensor.shape) put(out, static_cast<std::uint64_t>(length));
    put(out, traits(tensor.type).gguf_id);
    put(out, offset);
    offset += tensor.bytes();
    offset += padding_after(offset);
  }
  out.resize(out.size() + padding_after(out.size()), '\0');
  return out;
}

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw Error(ErrorCode::kIo, fmt::format("Can't write {}: {}.", path.string(),
                                          std::generic_category().message(error)));
}

}  // namespace

std::uint64_t GgufTensorInfo::bytes() const {
  std::uint64_t elements = 1;
  for (const std::int64_t length : shape) elements *= static_cast<std::uint64_t>(length);
  return bytes_for(type, static_cast<std::size_t>(elements));
}

std::uint64_t gguf_file_bytes(const MetadataMap& metadata,
                              const std::vector<GgufTensorInfo>& tensors) {
  std::uint64_t bytes = header_bytes(metadata, tensors).size();
  for (const GgufTensorInfo& tensor : tensors) {
    bytes += tensor.bytes();
    bytes += padding_after(bytes);
  }
  return bytes;
}

/// The open temporary file; removed again unless it was renamed.
class GgufFileWriter::File {
 public:
  explicit File(std::filesystem::path path) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0) fail(path_, errno);
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
    std::error_code ignored;
    if (!renamed_) std::filesystem::remove(path_, ignored);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ::ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void rename_to(const std::filesystem::path& path) {
    const int fd = std::exchange(fd_, -1);
    // Some file systems report a full disk only here.
    const bool stored = ::fsync(fd) == 0;
    const int error = errno;
    ::close(fd);
    if (!stored) fail(path_, error);
    std::error_code failure;
    std::filesystem::rename(path_, path, failure);
    if (failure) fail(path, failure.value());
    renamed_ = true;
  }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  bool renamed_ = false;
};

GgufFileWriter::GgufFileWriter(std::filesystem::path path, const MetadataMap& metadata,
                               std::vector<GgufTensorInfo> tensors)
    : path_(std::move(path)), tensors_(std::move(tensors)) {
  temporary_ = path_;
  temporary_ += fmt::format(".part-{}", ::getpid());
  file_ = std::make_unique<File>(temporary_);
  const std::string header = header_bytes(metadata, tensors_);
  file_->write(std::as_bytes(std::span(header)));
}

GgufFileWriter::~GgufFileWriter() = default;

void GgufFileWriter::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (current_ >= tensors_.size() || bytes.size() > tensors_[current_].bytes() - in_current_) {
    throw Error(ErrorCode::kInternal,
                fmt::format("{}: more bytes were written than the tensors have", path_.string()));
  }
  file_->write(bytes);
  in_current_ += bytes.size();
  in_data_ += bytes.size();
  if (in_current_ == tensors_[current_].bytes()) {
    pad();
    ++current_;
    in_current_ = 0;
  }
}

void GgufFileWriter::pad() {
  static constexpr std::byte kZeros[kAlignment] = {};
  const auto padding = static_cast<std::size_t>(padding_after(in_data_));
  file_->write({kZeros, padding});
  in_data_ += padding;
}

void GgufFileWriter::finish() {
  if (current_ != tensors_.size()) {
    throw Error(ErrorCode::kInternal, fmt::format("{}: the tensor {} was not written",
                                                  path_.string(), tensors_[current_].name));
  }
  file_->rename_to(path_);
}

}  // namespace sluice
