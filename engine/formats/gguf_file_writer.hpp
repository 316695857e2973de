// Writes a GGUF file, version 3, tensor by tensor, so that a model of any size passes through.
//
//   GgufFileWriter writer("out.gguf", metadata, {{"token_embd.weight", DType::kQ8_0, {64, 331}}});
//   writer.append(bytes_of_the_first_tensor);  // in pieces of any size
//   writer.finish();
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/formats/dtype.hpp"
#include "engine/formats/gguf_metadata.hpp"

namespace sluice {

/// A tensor to be written; shape[0] is the length of a row.
struct GgufTensorInfo {
  std::string name;
  DType type = DType::kF32;
  std::vector<std::int64_t> shape;

  std::uint64_t bytes() const;
};

/// What the metadata and descriptions of a file take, and all of it; without touching the disk.
std::uint64_t gguf_file_bytes(const MetadataMap& metadata,
                              const std::vector<GgufTensorInfo>& tensors);

/// Writes to a temporary name beside `path` and takes the final name in finish(), so that there
/// is never half a file under it. Everything throws Error(kIo) when the disk refuses.
class GgufFileWriter {
 public:
  /// Writes everything but the tensors' data. Integers become u32 where they fit, as readers
  /// expect (i32, u64, i64 otherwise), numbers f32, arrays of integers i32 (or i64).
  GgufFileWriter(std::filesystem::path path, const MetadataMap& metadata,
                 std::vector<GgufTensorInfo> tensors);
  /// Removes the temporary file unless finish() was called.
  ~GgufFileWriter();
  GgufFileWriter(const GgufFileWriter&) = delete;
  GgufFileWriter& operator=(const GgufFileWriter&) = delete;

  /// The next bytes of the tensors, in the order that was announced. Padding is added between.
  /// Throws Error(kInternal) when a piece reaches beyond its tensor.
  void append(std::span<const std::byte> bytes);

  /// Throws Error(kInternal) unless all bytes of all tensors have been appended.
  void finish();

 private:
  class File;

  void pad();

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::vector<GgufTensorInfo> tensors_;
  std::unique_ptr<File> file_;
  std::size_t current_ = 0;       ///< tensor being written
  std::uint64_t in_current_ = 0;  ///< bytes of it so far
  std::uint64_t in_data_ = 0;     ///< bytes since the start of the tensor data
};

}  // namespace sluice
