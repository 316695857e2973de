#include "engine/convert/model_metadata.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "engine/convert/tokenizer_metadata.hpp"

namespace sluice {

MetadataMap model_metadata(const ModelSource& source, std::vector<std::string>& notes) {
  MetadataMap keys = source.metadata();
  std::erase_if(keys, [](const auto& entry) { return entry.first.starts_with("sluice."); });
  // Tensors are laid out anew.
  keys.erase("general.alignment");
  if (source.get_bool("sluice.sliding_window_all_layers").value_or(false)) {
    const std::string arch = source.require_string("general.architecture");
    const auto most = static_cast<std::int64_t>(source.tensors().size());
    const auto layers = static_cast<std::size_t>(
        std::clamp<std::int64_t>(source.require_int(arch + ".block_count"), 0, most));
    keys.insert_or_assign(arch + ".attention.sliding_window_pattern",
                          std::vector<bool>(layers, true));
    notes.emplace_back(
        "Every layer of this model has a sliding window. The file says so, but other engines "
        "than this one may let it see more.");
  }
  std::error_code ignored;
  const std::filesystem::path tokenizer_json = source.path() / "tokenizer.json";
  if (std::filesystem::is_regular_file(tokenizer_json, ignored)) {
    const TensorView* embedding = source.find_tensor("token_embd.weight");
    const std::int64_t vocab_size =
        embedding != nullptr && embedding->shape.size() == 2 ? embedding->shape[1] : 0;
    add_tokenizer_metadata(tokenizer_json, vocab_size, keys);
  } else if (!keys.contains("tokenizer.ggml.model")) {
    notes.emplace_back("The model has no tokenizer, so the file will have none either.");
  }
  return keys;
}

}  // namespace sluice
