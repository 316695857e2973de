#include "engine/formats/gguf_part.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/formats/byte_cursor.hpp"
#include "engine/formats/gguf_tensors.hpp"
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

}  // namespace

GgufPart read_gguf_part(const std::filesystem::path& path) {
  MappedFile file(path);
  const std::string name = path.string();
  ByteCursor cursor(file.bytes(), name, fail_end);
  const Header header = read_header(cursor, name);
  MetadataMap metadata = read_gguf_metadata(cursor, header.num_entries, name);
  std::vector<TensorView> tensors =
      read_gguf_tensors(cursor, file.bytes(), header.num_tensors, metadata, name);
  return {std::move(file), header.version, std::move(metadata), std::move(tensors)};
}

}  // namespace sluice
