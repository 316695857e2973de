// The metadata section of a GGUF file.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/formats/byte_cursor.hpp"
#include "engine/formats/model_source.hpp"

namespace sluice {

using MetadataMap = std::map<std::string, MetadataValue, std::less<>>;

/// Reads `num_entries` entries at the cursor. Throws Error(kCorrupt), naming the key, for a
/// length or count that the file can't hold, an unknown type, or a key that comes twice.
MetadataMap read_gguf_metadata(ByteCursor& cursor, std::uint64_t num_entries,
                               const std::string& path);

}  // namespace sluice
