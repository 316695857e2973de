// Turns a model into a GGUF file of other weight types.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/convert/output_tensors.hpp"
#include "engine/convert/quantize_recipe.hpp"
#include "engine/formats/model_source.hpp"
#include "kernels/cpu/thread_pool.hpp"

namespace sluice {

/// What will be written: known before a byte is.
struct QuantizePlan {
  MetadataMap metadata;
  std::vector<OutputTensor> tensors;
  std::uint64_t source_bytes = 0;  ///< of all tensors
  std::uint64_t file_bytes = 0;
  std::vector<std::string> notes;  ///< what a reader of the file should know, one sentence each
};

/// Plans a standard file: tokenizer and template included, no keys of our own. Throws Error:
/// kCorrupt, kUnsupported (a tokenizer that GGUF has no form for).
QuantizePlan plan_quantize(const ModelSource& source, const QuantizeRecipe& recipe);

/// Called now and then from the calling thread with the part that is done, 0 to 1.
using QuantizeProgress = std::function<void(double done)>;

/// Writes the file that was planned; the result depends on the plan alone, not on the threads.
/// `source` must be the one planned for. Throws Error(kIo), and kCorrupt when a weight is not
/// finite and its new type can't hold that.
void write_quantized(const ModelSource& source, const QuantizePlan& plan,
                     const std::filesystem::path& path, kernels::ThreadPool& pool,
                     const QuantizeProgress& progress);

}  // namespace sluice
