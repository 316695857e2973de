#include "engine/formats/hf_weights.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/formats/json_file.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// Tensor name to the name of its file.
using WeightMap = std::map<std::string, std::string, std::less<>>;

/// A plain name inside the folder, never a path out of it.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

WeightMap read_index(const fs::path& path) {
  const JsonFile index(path);
  const simdjson::dom::object listed = index.object(index.root(), "weight_map");
  WeightMap weight_map;
  for (const auto& [tensor, value] : listed) {
    std::string_view file;
    if (value.get(file) != simdjson::SUCCESS) {
      index.corrupt(fmt::format("no file is named for tensor {}", quote_text(tensor)));
    }
    if (!is_plain_name(file) || !file.ends_with(".safetensors")) {
      index.corrupt(
          fmt::format("tensor {} is said to lie in {}, which is not the name of a "
                      ".safetensors file in the same folder",
                      quote_text(tensor), quote_text(file)));
    }
    if (!weight_map.emplace(tensor, file).second) {
      index.corrupt(fmt::format("tensor {} is listed twice", quote_text(tensor)));
    }
  }
  if (weight_map.empty()) index.corrupt("the weight_map is empty");
  return weight_map;
}

void add_file(HfWeights& weights, const fs::path& path) {
  MappedFile file(path);
  std::vector<SafeTensor> tensors = read_safetensors(file.bytes(), path);
  weights.files.push_back(std::move(file));
  for (SafeTensor& tensor : tensors) weights.tensors.push_back(std::move(tensor));
}

/// Every tensor lies where the index says, and in one file only. A tensor that the index leaves
/// out is taken from where it is found.
HfWeights read_shards(const fs::path& folder) {
  const fs::path index_path = folder / kIndex;
  const WeightMap weight_map = read_index(index_path);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : weight_map) shards.insert(shard);

  const auto fail = [&](const std::string& fault) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{}: {}; fetch the index and the files that it names again.",
                            index_path.string(), fault));
  };
  HfWeights weights;
  std::map<std::string, std::string, std::less<>> found;
  for (const std::string& shard : shards) {
    if (!is_file(folder / shard)) fail(fmt::format("the file {} is missing", quote_text(shard)));
    const std::size_t first = weights.tensors.size();
    add_file(weights, folder / shard);
    for (std::size_t i = first; i < weights.tensors.size(); ++i) {
      const std::string& name = weights.tensors[i].name;
      const auto [place, inserted] = found.emplace(name, shard);
      if (!inserted) {
        fail(fmt::format("tensor {} lies in {} and in {}", quote_text(name), place->second, shard));
      }
    }
  }
  for (const auto& [tensor, shard] : weight_map) {
    const auto place = found.find(tensor);
    if (place == found.end() || place->second != shard) {
      fail(fmt::format("tensor {} is not in {}", quote_text(tensor), quote_text(shard)));
    }
  }
  return weights;
}

}  // namespace

HfWeights read_hf_weights(const fs::path& folder) {
  HfWeights weights;
  if (is_file(folder / kSingle)) {
    add_file(weights, folder / kSingle);
    return weights;
  }
  if (is_file(folder / kIndex)) return read_shards(folder);
  if (is_file(folder / "pytorch_model.bin") || is_file(folder / "pytorch_model.bin.index.json")) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} holds its weights in PyTorch's own format, which can run code when "
                            "it is read; use a version of the model with .safetensors files.",
                            folder.string()));
  }
  throw Error(ErrorCode::kNotFound,
              fmt::format("{} holds no weights ({} or {}); fetch the model's folder again.",
                          folder.string(), kSingle, kIndex));
}

}  // namespace sluice
