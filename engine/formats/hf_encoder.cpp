#include "engine/formats/hf_encoder.hpp"

#include <fmt/format.h>

#include <string>

#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

constexpr std::int64_t kMaxSize = 4'000'000'000;
constexpr std::int64_t kMaxLayers = 1 << 16;
// What a configuration leaves out (the defaults of the library that writes it).
constexpr std::int64_t kInput = 512;
constexpr std::int64_t kBuckets = 32;
constexpr std::int64_t kDistance = 128;
constexpr double kEpsilon = 1e-6;

std::int64_t checked(const HfConfigFile& config, std::string_view name, std::int64_t value,
                     std::int64_t most = kMaxSize) {
  if (value < 1 || value > most) config.corrupt(fmt::format("\"{}\" is {}", name, value));
  return value;
}

/// The tensors say whether the block is gated; the rest must be what goes with that.
void check_feed_forward(const HfConfigFile& config, const HfFamily& family) {
  const std::string kind = config.text({"feed_forward_proj"}).value_or("relu");
  if (kind == "relu" || kind == "gated-gelu") return;
  config.unsupported(
      fmt::format("the feed-forward block {} in a {} model", quote_text(kind), family.model_type));
}

}  // namespace

void read_hf_encoder(const HfConfigFile& config, const HfFamily& family, HfMetadata& metadata,
                     HfMetadataWriter& out) {
  check_feed_forward(config, family);
  const auto size = [&](std::string_view name) {
    return checked(config, name, config.require_integer({name}));
  };
  const auto size_or = [&](std::string_view name, std::int64_t otherwise) {
    return checked(config, name, config.integer({name}).value_or(otherwise));
  };
  metadata.num_layers = checked(config, "num_layers", size("num_layers"), kMaxLayers);
  metadata.num_heads = size("num_heads");
  metadata.vocab_size = size("vocab_size");
  const std::int64_t head_dim = checked(config, "d_kv", size("d_kv"), 1 << 16);
  out.set_integer("block_count", metadata.num_layers);
  out.set_integer("decoder_block_count", size_or("num_decoder_layers", metadata.num_layers));
  out.set_integer("embedding_length", size("d_model"));
  out.set_integer("feed_forward_length", size("d_ff"));
  out.set_integer("context_length", size_or("n_positions", kInput));
  out.set_integer("vocab_size", metadata.vocab_size);
  out.set_integer("attention.head_count", metadata.num_heads);
  out.set_integer("attention.key_length", head_dim);
  out.set_integer("attention.value_length", head_dim);
  const double epsilon = config.number({"layer_norm_epsilon"}).value_or(kEpsilon);
  out.set_number("attention.layer_norm_epsilon", epsilon);
  out.set_number("attention.layer_norm_rms_epsilon", epsilon);
  out.set_integer("attention.relative_buckets_count",
                  size_or("relative_attention_num_buckets", kBuckets));
  const std::int64_t distance = size_or("relative_attention_max_distance", kDistance);
  // GGUF readers assume the usual one.
  if (distance != kDistance) out.set_integer("attention.relative_max_distance", distance);
  out.set_integer("decoder_start_token_id",
                  config.integer({"decoder_start_token_id", "pad_token_id"}).value_or(0));
}

}  // namespace sluice
