// Work buffers of the CPU decoder: how many floats each needs, known before anything is taken.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/types.hpp"
#include "engine/model/model_config.hpp"

namespace sluice {

/// Positions of a block in the encoder's own K and V.
inline constexpr std::size_t kEncoderBlock = 16;

/// Most parts, of all heads, into which the attention of a step's single rows is divided among
/// threads. Longer contexts have a longer first part.
inline constexpr std::size_t kAttentionPartsMax = 128;

/// Sizes in floats, each rounded up to a cache line.
struct DecoderScratch {
  std::size_t hidden = 0;      ///< [rows x hidden]: the residual stream
  std::size_t normed = 0;      ///< [rows x hidden]: what a block reads
  std::size_t ffn_normed = 0;  ///< likewise, when both blocks of a layer read at the same time
  std::size_t block = 0;       ///< [rows x hidden]: what a block gives
  std::size_t q = 0;           ///< [rows x heads * head_dim]
  std::size_t k = 0;           ///< [rows x kv_dim]
  std::size_t v = 0;           ///< [rows x kv_dim]
  std::size_t attended = 0;    ///< [rows x heads * head_dim]
  std::size_t parts = 0;       ///< [parts x heads * (head_dim + 2)]: attention of a row's spans
  std::size_t gate = 0;        ///< [rows x ffn], of experts [rows * used x expert ffn]
  std::size_t up = 0;          ///< likewise
  std::size_t routed = 0;      ///< [rows * used x hidden]: rows sorted by expert
  std::size_t scores = 0;      ///< [rows x experts]
  std::size_t cosines = 0;     ///< [ropes x rows x rope_dims / 2]
  std::size_t sines = 0;       ///< likewise
  std::size_t logits = 0;      ///< [sampled rows x vocab]
  std::size_t encoder_k = 0;   ///< K of one layer for the encoder's rows, in whole blocks
  std::size_t encoder_v = 0;   ///< likewise
  std::size_t rounded = 0;     ///< the inputs of a product after rounding to 8 bits
  std::size_t per_thread = 0;  ///< decoded weights or an attention tile, one for each thread

  std::size_t floats(std::int32_t threads) const;
};

/// For steps of at most `max_batch_tokens`, with logits for `max_sampled_rows` at a time.
DecoderScratch decoder_scratch(const ModelConfig& config, Position max_batch_tokens,
                               std::int32_t max_sampled_rows);

/// All work memory of the CPU backend, in bytes: the above and the samplers' (one a thread).
std::size_t decoder_scratch_bytes(const ModelConfig& config, Position max_batch_tokens,
                                  std::int32_t max_sampled_rows, std::int32_t threads);

}  // namespace sluice
