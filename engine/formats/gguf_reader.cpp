#include "engine/formats/gguf_reader.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/formats/byte_cursor.hpp"
#include "engine/formats/gguf_metadata.hpp"
#include "engine/formats/gguf_tensors.hpp"
#include "engine/formats/mapped_file.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

[[noreturn]] void fail_end(const std::string& path, std::size_t offset, std::string_view what) {
  throw Error(ErrorCode::kCorrupt,
              fmt::format("{}: the file ends inside {} (byte {}); it is cut short or damaged, so "
                          "fetch it again.",
                          path, what, offset));
}

/// First four bytes of files that people confuse with GGUF.
struct OtherMagic {
  std::string_view bytes;
  std::string_view name;
};
constexpr OtherMagic kOtherMagics[] = {
    {"tjgg", "a GGJT file, the format before GGUF"},
    {"fmgg", "a GGMF file, older than GGUF"},
    {"lmgg", "a GGML file, older than GGUF"},
    {"algg", "a GGLA adapter file"},
    {"ggjt", "a GGJT file, the format before GGUF"},
    {"ggmf", "a GGMF file, older than GGUF"},
    {"ggml", "a GGML file, older than GGUF"},
    {"ggla", "a GGLA adapter file"},
    {"PK\x03\x04", "a ZIP archive or PyTorch checkpoint"},
};

struct Header {
  std::uint32_t version = 0;
  std::uint64_t num_tensors = 0;
  std::uint64_t num_entries = 0;
};

void check_magic(ByteCursor& cursor, const std::string& path) {
  if (cursor.remaining() == 0) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} is empty; the download may have failed, so fetch it again.", path));
  }
  const std::string_view magic = cursor.read_text(4, "the magic number");
  if (magic == "GGUF") return;
  for (const OtherMagic& other : kOtherMagics) {
    if (magic != other.bytes) continue;
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} is {}; convert the model to GGUF version 3.", path, other.name));
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{} is not a GGUF file (it begins with {} instead of 'GGUF').", path,
                          quote_text(magic)));
}

Header read_header(ByteCursor& cursor, const std::string& path) {
  check_magic(cursor, path);
  Header header;
  header.version = cursor.read<std::uint32_t>("the header");
  if (header.version == 1) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} is GGUF version 1, which is no longer read; convert the model to "
                            "GGUF version 3.",
                            path));
  }
  if (header.version != 0 && (header.version & 0xFFFFU) == 0) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("{} is a big-endian GGUF file; convert the model to little-endian.", path));
  }
  if (header.version != 2 && header.version != 3) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} is GGUF version {}; this build reads versions 2 and 3.", path,
                            header.version));
  }
  header.num_tensors = cursor.read<std::uint64_t>("the header");
  header.num_entries = cursor.read<std::uint64_t>("the header");
  return header;
}

class GgufSource final : public ModelSource {
 public:
  GgufSource(std::filesystem::path path, MappedFile file, std::uint32_t version,
             MetadataMap metadata, std::vector<TensorView> tensors)
      : path_(std::move(path)),
        file_(std::move(file)),
        version_(version),
        metadata_(std::move(metadata)),
        tensors_(std::move(tensors)) {
    for (const TensorView& tensor : tensors_) by_name_.emplace(tensor.name, &tensor);
  }

  const std::filesystem::path& path() const override { return path_; }
  std::string format() const override { return fmt::format("GGUF v{}", version_); }
  const MetadataMap& metadata() const override { return metadata_; }
  const std::vector<TensorView>& tensors() const override { return tensors_; }
  void release(std::span<const std::byte> part) const noexcept override { release_pages(part); }
  const TensorView* find_tensor(std::string_view name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::uint32_t version_;
  MetadataMap metadata_;
  std::vector<TensorView> tensors_;
  std::map<std::string_view, const TensorView*> by_name_;  // views of the names in tensors_
};

void refuse_split(const MetadataMap& metadata, const std::string& path) {
  const auto found = metadata.find("split.count");
  if (found == metadata.end()) return;
  const auto* count = std::get_if<std::int64_t>(&found->second);
  if (count == nullptr || *count <= 1) return;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{} is one part of a model split into {} files (split.count); join them "
                          "into one GGUF file first.",
                          path, *count));
}

}  // namespace

std::shared_ptr<const ModelSource> read_gguf(const std::filesystem::path& path) {
  MappedFile file(path);
  const std::string name = path.string();
  ByteCursor cursor(file.bytes(), name, fail_end);
  const Header header = read_header(cursor, name);
  MetadataMap metadata = read_gguf_metadata(cursor, header.num_entries, name);
  refuse_split(metadata, name);
  std::vector<TensorView> tensors =
      read_gguf_tensors(cursor, file.bytes(), header.num_tensors, metadata, name);
  return std::make_shared<GgufSource>(path, std::move(file), header.version, std::move(metadata),
                                      std::move(tensors));
}

}  // namespace sluice
