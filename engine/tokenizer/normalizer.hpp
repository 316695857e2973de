// What a tokenizer does to text before anything else: a list of rewriting steps.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// One rewriting of text. Immutable; safe to use from any thread.
class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  /// Any bytes in, the same meaning of bytes out; bytes that are not UTF-8 stay.
  virtual std::string apply(std::string_view text) const = 0;
};

using NormalizerStepPtr = std::unique_ptr<const NormalizerStep>;

class Normalizer {
 public:
  /// Text that grows more than this much is no text any more: the rest of the steps is left out.
  static constexpr std::size_t kMostGrowth = 16;    ///< times
  static constexpr std::size_t kFreeGrowth = 4096;  ///< bytes

  void add(NormalizerStepPtr step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }

  std::string apply(std::string_view text) const {
    std::string result(text);
    for (const NormalizerStepPtr& step : steps_) {
      if (result.size() > kFreeGrowth + kMostGrowth * text.size()) break;
      result = step->apply(result);
    }
    return result;
  }

 private:
  std::vector<NormalizerStepPtr> steps_;
};

}  // namespace sluice
