#include "engine/formats/hf_folder.hpp"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/formats/hf_companions.hpp"
#include "engine/formats/hf_metadata.hpp"
#include "engine/formats/hf_tensor_names.hpp"
#include "engine/formats/hf_transform.hpp"
#include "engine/formats/hf_weights.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

namespace fs = std::filesystem;

class HfFolderSource final : public ModelSource {
 public:
  HfFolderSource(fs::path folder, std::vector<MappedFile> files, MetadataMap metadata,
                 std::vector<TensorView> tensors, OwnedBytes owned)
      : path_(std::move(folder)),
        files_(std::move(files)),
        metadata_(std::move(metadata)),
        tensors_(std::move(tensors)),
        owned_(std::move(owned)) {
    for (const TensorView& tensor : tensors_) by_name_.emplace(tensor.name, &tensor);
  }

  const fs::path& path() const override { return path_; }
  std::string format() const override {
    return fmt::format("Hugging Face folder, {} safetensors file{}", files_.size(),
                       files_.size() == 1 ? "" : "s");
  }
  const MetadataMap& metadata() const override { return metadata_; }
  const std::vector<TensorView>& tensors() const override { return tensors_; }
  const TensorView* find_tensor(std::string_view name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  fs::path path_;
  std::vector<MappedFile> files_;
  MetadataMap metadata_;
  std::vector<TensorView> tensors_;
  OwnedBytes owned_;
  std::map<std::string_view, const TensorView*> by_name_;  // views of the names in tensors_
};

/// Puts metadata and tensors together.
class FolderReader {
 public:
  explicit FolderReader(const fs::path& folder)
      : folder_(folder),
        config_(folder / "config.json"),
        family_(find_hf_family(config_)),
        metadata_(read_hf_metadata(config_, family_)),
        weights_(read_hf_weights(folder)) {}

  std::shared_ptr<const ModelSource> read() {
    check_layer_count();
    const bool tied = is_tied();
    for (const SafeTensor& tensor : weights_.tensors) add(tensor, tied);
    for (const auto& [name, values] : metadata_.vectors) add_vector(name, values);
    check_vocabulary(tied);
    metadata_.keys.insert_or_assign("general.name", folder_name());
    read_hf_companions(folder_, config_, metadata_.keys);
    return std::make_shared<HfFolderSource>(folder_, std::move(weights_.files),
                                            std::move(metadata_.keys), std::move(tensors_),
                                            std::move(owned_));
  }

 private:
  void check_layer_count() const {
    if (static_cast<std::uint64_t>(metadata_.num_layers) > weights_.tensors.size()) {
      config_.corrupt(fmt::format("\"num_hidden_layers\" is {}, but the weights are {} tensors",
                                  metadata_.num_layers, weights_.tensors.size()));
    }
  }

  bool has_head() const {
    for (const SafeTensor& tensor : weights_.tensors) {
      const auto name = hf_tensor_name(family_, tensor.name);
      if (name && name->gguf == "output.weight") return true;
    }
    return false;
  }

  bool is_tied() const {
    const auto stated = config_.flag({"tie_word_embeddings"});
    if (stated) return *stated;
    return family_.tied ? *family_.tied : !has_head();
  }

  void add(const SafeTensor& tensor, bool tied) {
    const auto name = hf_tensor_name(family_, tensor.name);
    if (name && name->gguf.empty()) return;
    if (name && tied && name->gguf == "output.weight") return;
    // A tensor that the family does not have keeps its name, and is refused by whoever binds the
    // weights: leaving it out would compute something else than the model.
    const std::string gguf_name = name ? name->gguf : tensor.name;
    if (!taken_.insert(gguf_name).second) {
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("{}: two tensors stand for {}, one of them {}; the folder "
                              "contradicts itself, fetch it again.",
                              folder_.string(), gguf_name, quote_text(tensor.name)));
    }
    tensors_.push_back(transform_hf_tensor(tensor, gguf_name,
                                           name ? name->transform : HfTransform::kNone,
                                           metadata_.num_heads, folder_, owned_));
  }

  void add_vector(const std::string& name, const std::vector<float>& values) {
    if (values.empty()) return;
    const std::size_t bytes = values.size() * sizeof(float);
    owned_.push_back(std::make_unique<std::byte[]>(bytes));
    std::memcpy(owned_.back().get(), values.data(), bytes);
    tensors_.push_back({name,
                        DType::kF32,
                        {static_cast<std::int64_t>(values.size())},
                        {owned_.back().get(), bytes}});
  }

  void check_vocabulary(bool tied) const {
    const TensorView* embedding = nullptr;
    bool has_output = false;
    for (const TensorView& tensor : tensors_) {
      if (tensor.name == "token_embd.weight") embedding = &tensor;
      has_output = has_output || tensor.name == "output.weight";
    }
    if (embedding == nullptr || embedding->shape.size() != 2) {
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("{}: the weights have no token embedding; the folder is incomplete, "
                              "fetch it again.",
                              folder_.string()));
    }
    if (embedding->shape[1] != metadata_.vocab_size) {
      config_.corrupt(fmt::format("\"vocab_size\" is {}, but the token embedding has {} rows",
                                  metadata_.vocab_size, embedding->shape[1]));
    }
    if (!tied && !has_output) {
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("{}: the tensor lm_head.weight is missing, and config.json does not "
                              "say that the embedding takes its place; fetch the folder again.",
                              folder_.string()));
    }
  }

  std::string folder_name() const {
    std::error_code ignored;
    const fs::path whole = fs::absolute(folder_, ignored).lexically_normal();
    return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  }

  fs::path folder_;
  HfConfigFile config_;
  const HfFamily& family_;
  HfMetadata metadata_;
  HfWeights weights_;
  std::vector<TensorView> tensors_;
  OwnedBytes owned_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace

std::optional<fs::path> hf_folder_of(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return path;
  const std::string name = path.filename().string();
  const bool stands_for_folder = name.ends_with(".safetensors") ||
                                 name.ends_with(".safetensors.index.json") || name == "config.json";
  if (!stands_for_folder || !fs::exists(path, ignored)) return std::nullopt;
  const fs::path folder = path.parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

std::shared_ptr<const ModelSource> read_hf_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "config.json", ignored)) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} is a folder without config.json, so not a Hugging Face model; give "
                            "the path of a model's folder or of a .gguf file.",
                            folder.string()));
  }
  return FolderReader(folder).read();
}

}  // namespace sluice
