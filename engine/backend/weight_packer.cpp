#include "engine/backend/weight_packer.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "engine/model/tensor_binder.hpp"
#include "kernels/cpu/packed_matrix.hpp"

namespace sluice {
namespace {

/// Smaller matrices would be padding for the most part.
bool worth_packing(const kernels::WeightMatrix& matrix, const kernels::KernelTable& kernels) {
  return matrix.data != nullptr && matrix.packable != kernels::PackedFormat::kNone &&
         matrix.rows >= kernels::kGroupRows && matrix.cols % kernels::kBlockCols == 0 &&
         kernels.packed_for(matrix.packable).matmul != nullptr;
}

std::size_t packed_size(const kernels::WeightMatrix& matrix) {
  return kernels::packed_bytes(matrix.packable, matrix.rows, matrix.cols);
}

void collect(FeedForward& block, std::vector<kernels::WeightMatrix*>& found) {
  for (Projection* projection : {&block.gate, &block.up, &block.down})
    found.push_back(&projection->weight);
}

void collect(LayerWeights& layer, std::vector<kernels::WeightMatrix*>& found) {
  CrossAttention& cross = layer.cross;
  for (Projection* projection : {&layer.q, &layer.k, &layer.v, &layer.attention_output, &cross.q,
                                 &cross.k, &cross.v, &cross.output})
    found.push_back(&projection->weight);
  collect(layer.ffn, found);
  found.push_back(&layer.moe.router.weight);
  for (FeedForward& expert : layer.moe.experts) collect(expert, found);
  collect(layer.moe.shared, found);
}

/// Every matrix that products use, in the order of a step.
std::vector<kernels::WeightMatrix*> packable_matrices(DecoderWeights& weights,
                                                      const kernels::KernelTable& kernels) {
  std::vector<kernels::WeightMatrix*> found;
  for (LayerWeights& layer : weights.encoder.layers) collect(layer, found);
  for (LayerWeights& layer : weights.layers) collect(layer, found);
  found.push_back(&weights.lm_head.weight);
  std::erase_if(found, [&](const auto* matrix) { return !worth_packing(*matrix, kernels); });
  return found;
}

}  // namespace

std::size_t resident_weights_bytes(const ModelSource& source, bool precise) {
  return resident_weights_bytes(source,
                                precise ? nullptr : &kernels::kernel_table(kernels::best_isa()));
}

std::size_t resident_weights_bytes(const ModelSource& source, const kernels::KernelTable* kernels) {
  const bool tied = source.find_tensor("output.weight") == nullptr;
  std::size_t bytes = 0;
  for (const TensorView& tensor : source.tensors()) {
    kernels::WeightMatrix matrix;
    matrix.data = tensor.data.data();
    matrix.packable = packed_format_of(tensor.type);
    matrix.cols = static_cast<std::size_t>(tensor.shape[0]);
    matrix.rows = tensor.shape.size() < 2 ? 1 : static_cast<std::size_t>(tensor.shape[1]);
    const bool looked_up =
        (tensor.name == "token_embd.weight" && !tied) || tensor.name.ends_with("attn_rel_b.weight");
    if (kernels == nullptr || looked_up || !worth_packing(matrix, *kernels))
      bytes += tensor.data.size();
    else
      bytes += packed_size(matrix) *
               static_cast<std::size_t>(tensor.shape.size() < 3 ? 1 : tensor.shape[2]);
  }
  return bytes;
}

MappedMemory pack_weights(DecoderWeights& weights, const kernels::KernelTable& kernels,
                          kernels::ThreadPool& threads) {
  const std::vector<kernels::WeightMatrix*> matrices = packable_matrices(weights, kernels);
  std::size_t total = 0;
  for (const kernels::WeightMatrix* matrix : matrices) total += packed_size(*matrix);
  MappedMemory memory(total, "weights");
  memory.use_large_pages();

  std::byte* next = memory.data();
  for (kernels::WeightMatrix* matrix : matrices) {
    const std::size_t groups = (matrix->rows + kernels::kGroupRows - 1) / kernels::kGroupRows;
    threads.for_each_chunk(groups, 4, [&](std::size_t begin, std::size_t end, std::size_t) {
      kernels::pack_groups(matrix->packable, matrix->data, matrix->row_bytes, matrix->rows,
                           matrix->cols, begin, end, next);
    });
    const std::size_t file_bytes = matrix->rows * matrix->row_bytes;
    weights.source->release(std::span(matrix->data, file_bytes));
    matrix->packed = next;
    next += packed_size(*matrix);
    weights.bytes += packed_size(*matrix);
    weights.bytes -= file_bytes;
  }
  return memory;
}

}  // namespace sluice
