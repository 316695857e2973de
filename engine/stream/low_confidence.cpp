#include "engine/stream/low_confidence.hpp"

#include <array>
#include <limits>
#include <string>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

constexpr const char* kMinConfidenceKey = "sluice.stop.min_confidence";
constexpr const char* kPatienceKey = "sluice.stop.patience";

/// By size: the first row that is not smaller than the model.
struct Row {
  double most_parameters;
  LowConfidenceDefaults defaults;
};
constexpr std::array<Row, 2> kRows{{
    {10e9, {.min_confidence = 0.25F, .patience = 5}},
    {std::numeric_limits<double>::infinity(), {.min_confidence = 0.15F, .patience = 5}},
}};

LowConfidenceDefaults defaults_by_size(const ModelSource& source) {
  double parameters = 0.0;
  for (const TensorView& tensor : source.tensors()) {
    parameters += static_cast<double>(tensor.elements());
  }
  for (const Row& row : kRows) {
    if (parameters <= row.most_parameters) return row.defaults;
  }
  return kRows.back().defaults;
}

[[noreturn]] void refuse(const ModelSource& source, const char* key, const char* range) {
  throw Error(ErrorCode::kCorrupt, "The metadata " + std::string(key) + " of " +
                                       source.path().string() + " must be " + range + ".");
}

}  // namespace

LowConfidenceDefaults low_confidence_defaults(const ModelSource& source) {
  LowConfidenceDefaults defaults = defaults_by_size(source);
  if (const auto probability = source.get_float(kMinConfidenceKey)) {
    if (!(*probability > 0.0 && *probability <= 1.0)) {
      refuse(source, kMinConfidenceKey, "a probability above 0 and at most 1");
    }
    defaults.min_confidence = static_cast<float>(*probability);
  }
  if (const auto patience = source.get_int(kPatienceKey)) {
    if (*patience < 1 || *patience > std::numeric_limits<std::int32_t>::max()) {
      refuse(source, kPatienceKey, "a number of tokens of at least 1");
    }
    defaults.patience = static_cast<std::int32_t>(*patience);
  }
  return defaults;
}

void complete(StopOptions& options, const LowConfidenceDefaults& defaults) {
  if (options.min_confidence > 0.0F && options.patience == 0) options.patience = defaults.patience;
  if (options.patience > 0 && options.min_confidence == 0.0F) {
    options.min_confidence = defaults.min_confidence;
  }
}

}  // namespace sluice
