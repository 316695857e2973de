// What other weights cost: how much worse a model predicts a text than the one it was made from.
#pragma once

#include <filesystem>
#include <memory>

#include "engine/formats/model_source.hpp"

namespace sluice::app {

/// Prints the perplexity of both models on the text, and how far their predictions are apart.
/// Both must have one vocabulary. Throws Error for a text that can't be read or a model that this
/// build can't run.
void print_quantize_cost(const std::shared_ptr<const ModelSource>& before,
                         const std::shared_ptr<const ModelSource>& after,
                         const std::filesystem::path& text_file, int threads);

}  // namespace sluice::app
