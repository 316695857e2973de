// Models split into several GGUF files, named NAME-00001-of-00003.gguf and so on.
#pragma once

#include <filesystem>
#include <vector>

#include "engine/formats/gguf_part.hpp"

namespace sluice {

/// All parts of a model in order, given any one of them. A file that is not split is alone. The
/// first part's metadata holds for all; its "split.*" keys are removed. Throws Error: kNotFound
/// (names the missing parts), kCorrupt (parts that do not belong together), and what
/// read_gguf_part() throws.
std::vector<GgufPart> read_all_gguf_parts(const std::filesystem::path& path);

/// Path of the first part of the model that `path` belongs to.
std::filesystem::path first_gguf_part(const std::filesystem::path& path);

}  // namespace sluice
