// The low-confidence rule per model: which doubt is too much differs from model to model.
//
// The rule is off unless a request turns it on. A request that gives only half of it
// (min_confidence or patience) gets the other half from here:
//
//   const LowConfidenceDefaults defaults = low_confidence_defaults(*source);   // once, at load
//   complete(request.stop, defaults);                                          // each request
//
// A model can bring its own numbers in its metadata: sluice.stop.min_confidence (a probability)
// and sluice.stop.patience (tokens, at least 1). Else its size decides. The numbers for about 7
// and 13 billion parameters come from use; a larger model spreads its probability over more good
// continuations, so that less of it at the top is no sign of being lost.
#pragma once

#include <cstdint>

#include "engine/formats/model_source.hpp"
#include "engine/stream/request.hpp"

namespace sluice {

struct LowConfidenceDefaults {
  float min_confidence = 0.25F;
  std::int32_t patience = 5;

  bool operator==(const LowConfidenceDefaults&) const = default;
};

/// Throws Error(kCorrupt), naming key and file, when the metadata have values that can't be.
LowConfidenceDefaults low_confidence_defaults(const ModelSource& source);

/// Fills in what a request that turns the rule on does not say; without either number the rule
/// stays off.
void complete(StopOptions& options, const LowConfidenceDefaults& defaults);

}  // namespace sluice
