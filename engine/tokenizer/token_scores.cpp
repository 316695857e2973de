#include "engine/tokenizer/token_scores.hpp"

#include <fmt/format.h>

#include <cmath>

#include "engine/base/error.hpp"

namespace sluice {

std::vector<float> read_token_scores(const ModelSource& source, std::size_t num_tokens) {
  const std::vector<double>* scores = source.get_floats("tokenizer.ggml.scores");
  if (scores == nullptr || scores->size() != num_tokens) {
    throw Error(
        ErrorCode::kCorrupt,
        fmt::format("{}: tokenizer.ggml.scores has {} entries for {} tokens; the file is "
                    "damaged or was written by a faulty converter.",
                    source.path().string(), scores == nullptr ? 0 : scores->size(), num_tokens));
  }
  std::vector<float> narrow;
  narrow.reserve(scores->size());
  for (const double score : *scores) {
    // A score that can't be compared would break the order of merges.
    narrow.push_back(std::isnan(score) ? 0.0F : static_cast<float>(score));
  }
  return narrow;
}

}  // namespace sluice
