// Reads one safetensors file: the weights of Hugging Face folders.
//
// Layout: u64 length of the header; the header, a JSON object; tensor data. The header maps each
// tensor's name to {"dtype", "shape", "data_offsets": [begin, end]}, offsets counted from the
// start of the data; "__metadata__" holds free text. The tensors cover the data without overlap
// and without holes. Source: github.com/huggingface/safetensors, README.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/formats/dtype.hpp"

namespace sluice {

/// A tensor as the file has it. The last dimension is the fastest; a scalar has no dimensions.
struct SafeTensor {
  std::string name;
  std::string type_name;            ///< as in the file: "F32", "BF16", "I64", ...
  std::vector<std::int64_t> shape;  ///< each at least 0
  std::span<const std::byte> data;  ///< inside the mapping, at any address
};

/// The type of weights in this element type; empty for types that hold no weights, or packed ones.
std::optional<DType> weight_type(const SafeTensor& tensor);

/// Checks the header of a file that is mapped at `file` and finds each tensor's bytes. `path` is
/// for messages. Throws Error: kCorrupt, kUnsupported (element type), naming the tensor.
std::vector<SafeTensor> read_safetensors(std::span<const std::byte> file,
                                         const std::filesystem::path& path);

}  // namespace sluice
