// A model source with some of its tensors left out, cut up or reshaped, for tests.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/formats/model_source.hpp"

namespace sluice::test {

class ChangedSource final : public ModelSource {
 public:
  ChangedSource(std::shared_ptr<const ModelSource> base, std::vector<TensorView> tensors)
      : base_(std::move(base)), tensors_(std::move(tensors)) {}

  const std::filesystem::path& path() const override { return base_->path(); }
  std::string format() const override { return base_->format(); }
  const std::map<std::string, MetadataValue, std::less<>>& metadata() const override {
    return base_->metadata();
  }
  const std::vector<TensorView>& tensors() const override { return tensors_; }
  const TensorView* find_tensor(std::string_view name) const override {
    for (const TensorView& tensor : tensors_)
      if (tensor.name == name) return &tensor;
    return nullptr;
  }

 private:
  std::shared_ptr<const ModelSource> base_;
  std::vector<TensorView> tensors_;
};

/// Outer slices [begin, end) of a tensor: rows of a matrix, matrices of a stack.
inline TensorView outer_slices(const TensorView& whole, std::string name, std::int64_t begin,
                               std::int64_t end) {
  TensorView part = whole;
  part.name = std::move(name);
  part.shape.back() = end - begin;
  const auto count = static_cast<std::size_t>(whole.shape.back());
  const std::size_t bytes = whole.data.size() / count;
  part.data = whole.data.subspan(static_cast<std::size_t>(begin) * bytes,
                                 static_cast<std::size_t>(end - begin) * bytes);
  return part;
}

}  // namespace sluice::test
