// The tensors of a standard GGUF file, and where their rows come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/convert/quantize_recipe.hpp"
#include "engine/formats/gguf_file_writer.hpp"
#include "engine/formats/model_source.hpp"

namespace sluice {

/// One tensor to write: the rows of its pieces one after the other.
struct OutputTensor {
  GgufTensorInfo info;
  std::vector<const TensorView*> pieces;  ///< several for the experts of a layer
  /// Above 0: rows of q or k that pair i with i + n/2 in a head of this length become the order
  /// that pairs neighbours. Row 2i of a head is row i of the source, row 2i+1 is row i + n/2.
  std::int64_t rotated_head_dim = 0;

  std::int64_t rows() const;
  std::int64_t row_length() const { return info.shape.front(); }
  /// The bytes of row `r`, in the type of its piece.
  std::span<const std::byte> source_row(std::int64_t r) const;
  DType source_type() const { return pieces.front()->type; }
};

/// In the order of the source. Experts that lie apart ("blk.0.ffn_gate.3.weight") are put together
/// ("blk.0.ffn_gate_exps.weight"); q and k of a source with "sluice.rope_halves" are reordered.
/// Throws Error(kCorrupt) for experts that do not fit together.
std::vector<OutputTensor> output_tensors(const ModelSource& source, const QuantizeRecipe& recipe);

}  // namespace sluice
