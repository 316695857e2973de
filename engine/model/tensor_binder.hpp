// Takes tensors out of a model by name, checks their shape and keeps count of what was taken.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "engine/formats/model_source.hpp"
#include "kernels/cpu/kernels.hpp"

namespace sluice {

/// How matrices of this type can be packed; kNone: not at all.
kernels::PackedFormat packed_format_of(DType type);

class TensorBinder {
 public:
  explicit TensorBinder(const ModelSource& source) : source_(source) {}

  /// Matrix with rows of `in` elements, `out` of them; a single row may be stored as a vector.
  /// Throws Error(kCorrupt) when it is missing or has another shape.
  kernels::WeightMatrix matrix(const std::string& name, std::int64_t in, std::int64_t out);
  /// `count` such matrices, stored one after the other in a tensor of three dimensions.
  std::vector<kernels::WeightMatrix> stacked_matrices(const std::string& name, std::int64_t in,
                                                      std::int64_t out, std::int64_t count);
  /// `count` rows of `n` elements, decoded, [count x n].
  std::vector<float> table(const std::string& name, std::int64_t n, std::int64_t count);
  /// Vector of `n` elements, decoded. Throws likewise.
  std::vector<float> vector(const std::string& name, std::int64_t n);
  /// Empty when there is no such tensor.
  std::vector<float> optional_vector(const std::string& name, std::int64_t n);
  bool has(const std::string& name) const { return source_.find_tensor(name) != nullptr; }
  /// Counts a tensor as taken that has no use at run time.
  void ignore(const std::string& name) { taken_.insert(name); }

  /// Throws Error(kUnsupported) when a tensor has not been taken: leaving it out would silently
  /// compute something else than the model.
  void expect_all_taken() const;

 private:
  const TensorView& take(const std::string& name, const std::vector<std::int64_t>& shape);

  const ModelSource& source_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace sluice
