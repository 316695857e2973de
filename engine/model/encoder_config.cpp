#include "engine/model/encoder_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxBuckets = 1 << 12;
constexpr std::int64_t kMaxDistance = 1 << 12;

/// Is the LM head the token embedding, left out or stored once more?
bool shares_embedding(const ModelSource& source) {
  const TensorView* head = source.find_tensor("output.weight");
  const TensorView* embedding = source.find_tensor("token_embd.weight");
  if (head == nullptr) return true;
  return head->type == embedding->type && head->shape == embedding->shape &&
         std::memcmp(head->data.data(), embedding->data.data(), head->data.size()) == 0;
}

RelativePositions read_relative_positions(const MetadataReader& keys) {
  RelativePositions relative;
  relative.buckets = keys.require_size("attention.relative_buckets_count", kMaxBuckets);
  // GGUF has no key for it: all published models have the same.
  relative.max_distance =
      keys.optional_size("attention.relative_max_distance", kMaxDistance).value_or(128);
  // A quarter of the encoder's buckets, half of the decoder's, hold one distance each.
  if (relative.buckets % 4 != 0 || relative.max_distance <= relative.buckets / 2)
    keys.corrupt(fmt::format("{} relative position buckets do not fit distances up to {}",
                             relative.buckets, relative.max_distance));
  return relative;
}

TokenId read_decoder_start(const MetadataReader& keys, std::int32_t vocab_size) {
  const std::int64_t token = keys.source().get_int(keys.key("decoder_start_token_id")).value_or(0);
  if (token < 0 || token >= vocab_size)
    keys.corrupt(fmt::format("{} is {}, which is no token of the {}",
                             keys.key("decoder_start_token_id"), token, vocab_size));
  return static_cast<TokenId>(token);
}

}  // namespace

void read_encoder(const MetadataReader& keys, ModelConfig& config) {
  if (config.num_heads != config.num_kv_heads)
    keys.unsupported("an encoder-decoder whose heads share keys and values");
  EncoderConfig& encoder = config.encoder;
  encoder.num_layers = config.num_layers;
  config.num_layers =
      keys.optional_size("decoder_block_count", kMaxLayers).value_or(encoder.num_layers);
  if (static_cast<std::size_t>(config.num_layers) > keys.source().tensors().size())
    keys.corrupt(fmt::format("{} is {}, more than there are tensors",
                             keys.key("decoder_block_count"), config.num_layers));
  if (config.context_length > (1 << 30))
    keys.corrupt(fmt::format("{} is {}", keys.key("context_length"), config.context_length));
  encoder.max_input = config.context_length;
  config.context_length *= 2;  // the model's number is one of the input and one of the output
  encoder.decoder_start = read_decoder_start(keys, config.vocab_size);
  config.relative_positions = read_relative_positions(keys);

  config.rope_dims = 0;
  config.ropes.clear();
  config.layers.assign(static_cast<std::size_t>(config.num_layers), LayerOptions{.rope = -1});
  // The first models have an ungated block with ReLU, version 1.1 and its kin a gated one with
  // GELU.
  config.options.gated = keys.source().find_tensor("dec.blk.0.ffn_gate.weight") != nullptr;
  config.options.activation = config.options.gated ? Activation::kGelu : Activation::kRelu;
  if (shares_embedding(keys.source()))
    config.options.logit_scale = 1.0F / std::sqrt(static_cast<float>(config.hidden_size));
}

Position longest_input(const ModelConfig& config, Position step_tokens, Position context) {
  if (!config.has_encoder()) return 0;
  const Position longest = std::min({config.encoder.max_input, step_tokens, context - 2});
  if (longest < 1)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("A context of {} positions has no room for an encoder's input and a "
                            "token of output; ask for at least 3.",
                            context));
  return longest;
}

void require_decoder_alone(const ModelConfig& config, std::string_view what) {
  if (!config.has_encoder()) return;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{} works with models that have a decoder alone, but {} ({}) has an "
                          "encoder; use another model.",
                          what, config.name, config.architecture));
}

}  // namespace sluice
