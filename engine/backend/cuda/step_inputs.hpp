// What a batch becomes on its way to the device: rows, block tables, tiles, sampling parameters.
//
// Slices of one token come first, then the prompts' chunks. A step of decoding rows only is filled
// up with padding to one of few sizes (a bucket), so that a graph recorded for the bucket serves
// it.
//
// Worked example: slices of 1, 5 and 1 tokens. Rows 0 and 1 are the first and the last slice, rows
// 2 to 6 the second. Three slices of 1 token at positions up to 300: bucket of 3 rows and 512
// positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/backend.hpp"
#include "engine/backend/cuda/step_staging.hpp"
#include "kernels/cuda/kernels.hpp"

namespace sluice {

/// The sizes that a recorded step depends on.
struct StepBucket {
  std::int32_t rows = 0;
  std::int32_t positions = 0;  ///< of the longest sequence at most
  auto operator<=>(const StepBucket&) const = default;
};

/// Smallest bucket for so many rows and positions: rows 1, 2, 3, 4, 6, 8, 12, ... and positions
/// 256, 512, 1024, ...
StepBucket bucket_for(std::int32_t rows, std::int32_t positions);

/// Rows that steps of so many tokens can have, padding included.
std::int32_t rows_with_padding(std::int32_t tokens);

/// A step as the device sees it; pointers are the device's.
struct StepView {
  StepBucket bucket;                            ///< rows 0: not a step of decoding rows only
  std::int32_t rows = 0;                        ///< padding included
  std::int32_t decode_rows = 0;                 ///< the first rows; the others belong to tiles
  std::int32_t positions = 0;                   ///< bounds those of the decoding rows
  const std::int32_t* ids = nullptr;            ///< [rows]
  const std::int32_t* row_positions = nullptr;  ///< [rows]
  const std::int32_t* sequences = nullptr;      ///< [rows]
  std::vector<const std::int32_t*> tables;      ///< for each group [slices x table_stride]
  std::int32_t table_stride = 0;
  const kernels::cuda::PrefillTile* tiles = nullptr;  ///< [num_tiles]
  std::int32_t num_tiles = 0;
  const std::int32_t* sampled = nullptr;  ///< [num_sampled]: rows; negative: padding
  std::int32_t num_sampled = 0;
  // What a graph does not depend on:
  const kernels::cuda::RowSampling* sampling = nullptr;  ///< [num_sampled]
  const kernels::cuda::LogitBias* biases = nullptr;
  const std::int32_t* banned = nullptr;
  const std::int32_t* history = nullptr;
  const kernels::cuda::BlockPair* moves = nullptr;  ///< [moves of the batch]
};

struct StepInputs {
  StepView view;
  std::vector<std::size_t> slices;      ///< index in the batch, in the order of rows
  std::vector<std::int32_t> first_row;  ///< of each slice of the batch; -1: not accepted
  std::vector<std::size_t> drawing;     ///< slices of view.sampled
};

/// Lays out the accepted slices of a batch (indices into batch.slices) and its moves. Nothing of an
/// earlier step may be under way. `tile_rows`: see prefill_tile_rows(). Throws as require().
StepInputs stage_step(const StepBatch& batch, std::span<const std::size_t> accepted,
                      const KvPoolShape& pool, std::int32_t tile_rows, StepStaging& staging);

}  // namespace sluice
