// Encoder-decoder models in Hugging Face folders: names and configuration of T5.
#pragma once

#include <array>

#include "engine/formats/hf_config_file.hpp"
#include "engine/formats/hf_family.hpp"
#include "engine/formats/hf_metadata.hpp"
#include "engine/formats/hf_metadata_writer.hpp"

namespace sluice {

/// T5, in its first form and as version 1.1; mT5.
inline constexpr std::array kT5Rules = {
    HfTensorRule{"shared", "token_embd"},
    HfTensorRule{"encoder.embed_tokens", "", HfTransform::kDrop},  // the same once more
    HfTensorRule{"decoder.embed_tokens", "", HfTransform::kDrop}, HfTensorRule{"lm_head", "output"},
    HfTensorRule{"encoder.final_layer_norm", "enc.output_norm"},
    HfTensorRule{"encoder.block.#.layer.0.layer_norm", "enc.blk.#.attn_norm"},
    HfTensorRule{"encoder.block.#.layer.0.SelfAttention.q", "enc.blk.#.attn_q"},
    HfTensorRule{"encoder.block.#.layer.0.SelfAttention.k", "enc.blk.#.attn_k"},
    HfTensorRule{"encoder.block.#.layer.0.SelfAttention.v", "enc.blk.#.attn_v"},
    HfTensorRule{"encoder.block.#.layer.0.SelfAttention.o", "enc.blk.#.attn_o"},
    HfTensorRule{"encoder.block.#.layer.0.SelfAttention.relative_attention_bias",
                 "enc.blk.#.attn_rel_b"},
    HfTensorRule{"encoder.block.#.layer.1.layer_norm", "enc.blk.#.ffn_norm"},
    HfTensorRule{"encoder.block.#.layer.1.DenseReluDense.wi", "enc.blk.#.ffn_up"},
    HfTensorRule{"encoder.block.#.layer.1.DenseReluDense.wi_0", "enc.blk.#.ffn_gate"},
    HfTensorRule{"encoder.block.#.layer.1.DenseReluDense.wi_1", "enc.blk.#.ffn_up"},
    HfTensorRule{"encoder.block.#.layer.1.DenseReluDense.wo", "enc.blk.#.ffn_down"},
    HfTensorRule{"decoder.final_layer_norm", "dec.output_norm"},
    HfTensorRule{"decoder.block.#.layer.0.layer_norm", "dec.blk.#.attn_norm"},
    HfTensorRule{"decoder.block.#.layer.0.SelfAttention.q", "dec.blk.#.attn_q"},
    HfTensorRule{"decoder.block.#.layer.0.SelfAttention.k", "dec.blk.#.attn_k"},
    HfTensorRule{"decoder.block.#.layer.0.SelfAttention.v", "dec.blk.#.attn_v"},
    HfTensorRule{"decoder.block.#.layer.0.SelfAttention.o", "dec.blk.#.attn_o"},
    HfTensorRule{"decoder.block.#.layer.0.SelfAttention.relative_attention_bias",
                 "dec.blk.#.attn_rel_b"},
    HfTensorRule{"decoder.block.#.layer.1.layer_norm", "dec.blk.#.cross_attn_norm"},
    HfTensorRule{"decoder.block.#.layer.1.EncDecAttention.q", "dec.blk.#.cross_attn_q"},
    HfTensorRule{"decoder.block.#.layer.1.EncDecAttention.k", "dec.blk.#.cross_attn_k"},
    HfTensorRule{"decoder.block.#.layer.1.EncDecAttention.v", "dec.blk.#.cross_attn_v"},
    HfTensorRule{"decoder.block.#.layer.1.EncDecAttention.o", "dec.blk.#.cross_attn_o"},
    // Old checkpoints hold a bias that no model reads.
    HfTensorRule{"decoder.block.#.layer.1.EncDecAttention.relative_attention_bias", "",
                 HfTransform::kDrop},
    HfTensorRule{"decoder.block.#.layer.2.layer_norm", "dec.blk.#.ffn_norm"},
    HfTensorRule{"decoder.block.#.layer.2.DenseReluDense.wi", "dec.blk.#.ffn_up"},
    HfTensorRule{"decoder.block.#.layer.2.DenseReluDense.wi_0", "dec.blk.#.ffn_gate"},
    HfTensorRule{"decoder.block.#.layer.2.DenseReluDense.wi_1", "dec.blk.#.ffn_up"},
    HfTensorRule{"decoder.block.#.layer.2.DenseReluDense.wo", "dec.blk.#.ffn_down"}};

/// All keys of the architecture, into `out` and the sizes of `metadata`. Throws Error: kCorrupt,
/// kUnsupported (an activation that GGUF has no way to say).
void read_hf_encoder(const HfConfigFile& config, const HfFamily& family, HfMetadata& metadata,
                     HfMetadataWriter& out);

}  // namespace sluice
