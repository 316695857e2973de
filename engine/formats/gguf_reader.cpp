#include "engine/formats/gguf_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "engine/formats/gguf_split.hpp"

namespace sluice {
namespace {

class GgufSource final : public ModelSource {
 public:
  GgufSource(std::filesystem::path path, std::vector<GgufPart> parts)
      : path_(std::move(path)),
        version_(parts.front().version),
        metadata_(std::move(parts.front().metadata)) {
    for (GgufPart& part : parts) {
      std::move(part.tensors.begin(), part.tensors.end(), std::back_inserter(tensors_));
      files_.push_back(std::move(part.file));
    }
    for (const TensorView& tensor : tensors_) by_name_.emplace(tensor.name, &tensor);
  }

  const std::filesystem::path& path() const override { return path_; }
  std::string format() const override {
    return files_.size() == 1 ? fmt::format("GGUF v{}", version_)
                              : fmt::format("GGUF v{}, {} files", version_, files_.size());
  }
  const MetadataMap& metadata() const override { return metadata_; }
  const std::vector<TensorView>& tensors() const override { return tensors_; }
  void release(std::span<const std::byte> part) const noexcept override { release_pages(part); }
  const TensorView* find_tensor(std::string_view name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  std::filesystem::path path_;
  std::vector<MappedFile> files_;
  std::uint32_t version_;
  MetadataMap metadata_;
  std::vector<TensorView> tensors_;
  std::map<std::string_view, const TensorView*> by_name_;  // views of the names in tensors_
};

}  // namespace

std::shared_ptr<const ModelSource> read_gguf(const std::filesystem::path& path) {
  std::vector<GgufPart> parts = read_all_gguf_parts(path);
  std::filesystem::path first = parts.size() > 1 ? first_gguf_part(path) : path;
  return std::make_shared<GgufSource>(std::move(first), std::move(parts));
}

}  // namespace sluice
