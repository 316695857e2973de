#include "engine/model/model_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

/// What a name in general.architecture means beyond the keys that all share.
struct Architecture {
  std::string_view name;
  RopeLayout rope_layout;
};
constexpr Architecture kArchitectures[] = {
    {"llama", RopeLayout::kNeighbours},
};

// Limits far above every published model; they keep all products of sizes inside 32 bits.
constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxHidden = 1 << 20;
constexpr std::int64_t kMaxHeads = 1 << 14;
constexpr std::int64_t kMaxHeadDim = 1 << 14;
constexpr std::int64_t kMaxFfn = 1 << 24;
constexpr std::int64_t kMaxPositions = std::numeric_limits<Position>::max();
constexpr std::int64_t kMaxVocab = 1 << 26;

/// Reads the keys of one model, checks each on its own and against the others.
class ConfigReader {
 public:
  explicit ConfigReader(const ModelSource& source) : source_(source) {}

  ModelConfig read() {
    const Architecture& architecture = find_architecture();
    config_.architecture = architecture.name;
    config_.rope_layout = architecture.rope_layout;
    config_.name = read_name();
    read_sizes();
    read_attention();
    read_rope();
    refuse_experts();
    config_.vocab_size = read_vocab_size();
    config_.tied_embeddings = source_.find_tensor("output.weight") == nullptr;
    return config_;
  }

 private:
  const Architecture& find_architecture() const {
    const std::string& wanted = source_.require_string("general.architecture");
    std::vector<std::string_view> known;
    for (const Architecture& architecture : kArchitectures) {
      if (architecture.name == wanted) return architecture;
      known.push_back(architecture.name);
    }
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} holds a model of the architecture {}, which this build can't run; "
                            "it runs {}.",
                            file(), quote_text(wanted), fmt::join(known, ", ")));
  }

  std::string read_name() const {
    const std::string* name = source_.get_string("general.name");
    return name != nullptr && !name->empty() ? *name : source_.path().stem().string();
  }

  void read_sizes() {
    config_.num_layers = require_size("block_count", kMaxLayers);
    if (static_cast<std::size_t>(config_.num_layers) > source_.tensors().size()) {
      corrupt(fmt::format("{} is {}, but the file holds only {} tensors", key("block_count"),
                          config_.num_layers, source_.tensors().size()));
    }
    config_.hidden_size = require_size("embedding_length", kMaxHidden);
    config_.ffn_size = require_size("feed_forward_length", kMaxFfn);
    config_.context_length = require_size("context_length", kMaxPositions);
  }

  void read_attention() {
    config_.num_heads = require_size("attention.head_count", kMaxHeads);
    config_.num_kv_heads =
        optional_size("attention.head_count_kv", kMaxHeads).value_or(config_.num_heads);
    if (config_.num_heads % config_.num_kv_heads != 0) {
      corrupt(fmt::format("{} heads can't share {} key/value heads evenly ({}, {})",
                          config_.num_heads, config_.num_kv_heads, key("attention.head_count"),
                          key("attention.head_count_kv")));
    }
    config_.head_dim = read_head_dim();
    const double epsilon = source_.require_float(key("attention.layer_norm_rms_epsilon"));
    if (!(epsilon >= 0.0 && epsilon < 1.0)) {
      corrupt(fmt::format("{} is {}, not a small number", key("attention.layer_norm_rms_epsilon"),
                          epsilon));
    }
    config_.norm_epsilon = static_cast<float>(epsilon);
  }

  std::int32_t read_head_dim() const {
    const auto given = optional_size("attention.key_length", kMaxHeadDim);
    if (!given && config_.hidden_size % config_.num_heads != 0) {
      corrupt(fmt::format("{} heads do not divide the embedding length {}", config_.num_heads,
                          config_.hidden_size));
    }
    const std::int32_t head_dim = given.value_or(config_.hidden_size / config_.num_heads);
    if (head_dim > kMaxHeadDim) corrupt(fmt::format("a head of {} elements is too long", head_dim));
    const auto value_length = optional_size("attention.value_length", kMaxHeadDim);
    if (value_length && *value_length != head_dim) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{}: keys have {} elements a head and values {}; this build runs "
                              "models where both are equal.",
                              file(), head_dim, *value_length));
    }
    return head_dim;
  }

  void read_rope() {
    const double base = source_.get_float(key("rope.freq_base")).value_or(10000.0);
    if (!(base >= 1.0 && base <= 1e12)) {
      corrupt(fmt::format("{} is {}, not a frequency base", key("rope.freq_base"), base));
    }
    config_.rope_base = static_cast<float>(base);
    config_.rope_dims =
        optional_size("rope.dimension_count", kMaxHeadDim).value_or(config_.head_dim);
    if (config_.rope_dims > config_.head_dim || config_.rope_dims % 2 != 0) {
      corrupt(fmt::format("{} is {}, but must be even and at most the head size {}",
                          key("rope.dimension_count"), config_.rope_dims, config_.head_dim));
    }
    config_.rope_linear_factor = read_linear_factor();
  }

  /// Without a type, a factor means linear scaling; old files use rope.scale_linear.
  float read_linear_factor() const {
    const std::string* type = source_.get_string(key("rope.scaling.type"));
    if (type != nullptr && *type == "none") return 1.0F;
    if (type != nullptr && *type != "linear") {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{}: {} is {}, which this build can't apply; it knows none and "
                              "linear.",
                              file(), key("rope.scaling.type"), quote_text(*type)));
    }
    auto factor = source_.get_float(key("rope.scaling.factor"));
    if (!factor) factor = source_.get_float(key("rope.scale_linear"));
    if (!factor || *factor == 0.0) return 1.0F;  // converters write 0 for "no scaling"
    if (!(*factor > 0.0 && *factor <= 1e6)) {
      corrupt(fmt::format("{} is {}, not a factor", key("rope.scaling.factor"), *factor));
    }
    return static_cast<float>(*factor);
  }

  void refuse_experts() const {
    if (source_.get_int(key("expert_count")).value_or(0) == 0) return;
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} is a mixture of experts ({}), which this build can't run; use a "
                            "dense model.",
                            file(), key("expert_count")));
  }

  std::int32_t read_vocab_size() const {
    const TensorView* embedding = source_.find_tensor("token_embd.weight");
    if (embedding == nullptr) {
      corrupt("the tensor token_embd.weight is missing (a file with a vocabulary only?)");
    }
    if (embedding->shape.size() != 2 || embedding->shape[1] > kMaxVocab) {
      corrupt(
          fmt::format("the tensor token_embd.weight has the shape [{}] instead of two "
                      "dimensions, embedding length and vocabulary",
                      fmt::join(embedding->shape, ", ")));
    }
    const std::int64_t rows = embedding->shape[1];
    const std::vector<std::string>* tokens = source_.get_strings("tokenizer.ggml.tokens");
    if (tokens != nullptr && tokens->size() != static_cast<std::size_t>(rows)) {
      corrupt(fmt::format("the vocabulary has {} tokens, but token_embd.weight has {} rows",
                          tokens->size(), rows));
    }
    return static_cast<std::int32_t>(rows);
  }

  std::int32_t require_size(std::string_view name, std::int64_t largest) const {
    return checked_size(name, source_.require_int(key(name)), largest);
  }

  std::optional<std::int32_t> optional_size(std::string_view name, std::int64_t largest) const {
    const auto value = source_.get_int(key(name));
    if (!value) return std::nullopt;
    return checked_size(name, *value, largest);
  }

  std::int32_t checked_size(std::string_view name, std::int64_t value, std::int64_t largest) const {
    if (value < 1 || value > largest) {
      corrupt(fmt::format("{} is {}, outside 1 to {}", key(name), value, largest));
    }
    return static_cast<std::int32_t>(value);
  }

  [[noreturn]] void corrupt(const std::string& fault) const {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{}: {}; the file is damaged or was written by a faulty converter.",
                            file(), fault));
  }

  std::string key(std::string_view name) const {
    return fmt::format("{}.{}", config_.architecture, name);
  }
  std::string file() const { return source_.path().string(); }

  const ModelSource& source_;
  ModelConfig config_;
};

}  // namespace

ModelConfig read_model_config(const ModelSource& source) {
  return ConfigReader(source).read();
}

}  // namespace sluice
