// The tensor section of a GGUF file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/formats/byte_cursor.hpp"
#include "engine/formats/gguf_metadata.hpp"
#include "engine/formats/model_source.hpp"

namespace sluice {

/// Reads `num_tensors` descriptions at the cursor and finds each tensor's bytes in `file`.
/// Checks: dimensions (1 to 4, each at least 1, whole blocks in a row, no overflow), known
/// element type, alignment, data inside the file and not shared, names that differ. Throws
/// Error: kCorrupt or kUnsupported (element type), naming the tensor.
std::vector<TensorView> read_gguf_tensors(ByteCursor& cursor, std::span<const std::byte> file,
                                          std::uint64_t num_tensors, const MetadataMap& metadata,
                                          const std::string& path);

}  // namespace sluice
