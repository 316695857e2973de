// Every CUDA kernel's launch function. Plain C++: code that calls it needs no CUDA header.
//
// Rules that hold for all of them:
// - Pointers are device pointers (or pinned host memory that the device sees), except where a
//   comment says "host". Numbers passed by value are fixed when a graph is captured; what changes
//   from step to step (token ids, positions, tables, lengths, parameters of sampling) is read from
//   device memory. Grids depend on the numbers passed by value alone.
// - `rows` may be 0: nothing is launched. A row whose position or token is negative is padding: it
//   costs little and writes nothing but, where said, zeros.
// - A row's result depends on the row alone, not on `rows` or its place among them. No atomics on
//   floating-point numbers: results repeat bit by bit.
// - Matrices are row-major; shapes are in elements, f32 unless a type stands beside them. Pointers
//   are aligned to 16 bytes, where nothing else is said.
// - LaunchStatus::kBadShape, and nothing launched: a null pointer, a negative number, or a shape
//   beyond the limits in the comment.
//
// Worked example, a step of three rows: two decoding sequences at positions 20 and 7, padding.
//   token_ids {5, 99, -1}   positions {20, 7, -1}   sequences {0, 1, 0}
//   tables [2 x 4], block_size 16: {4, 9, -1, -1,  3, -1, -1, -1}
// K and V of row 0 go to block 9, row 4 of it; of row 1 to block 3, row 7.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch_types.hpp"

namespace sluice::kernels::cuda {

// -- embedding (embedding.cu) ---------------------------------------------------------------------

/// out[i] = scale * table[ids[i]], or out[i] += scale * table[ids[i]] when `add`.
/// ids [rows]; out [rows x table.cols] f32, stride table.cols. An id outside the table (padding)
/// gives zeros; with `add` it leaves the row.
LaunchStatus embed_rows(const Weights& table, const std::int32_t* ids, std::int32_t rows,
                        float scale, bool add, float* out, Stream stream);

// -- norms (norm.cu) ------------------------------------------------------------------------------

enum class NormKind : std::uint8_t {
  kRms,    ///< x / sqrt(mean(x^2) + epsilon) * weight
  kLayer,  ///< (x - mean) / sqrt(variance + epsilon) * weight + bias
};

struct NormWeights {
  const float* weight = nullptr;  ///< [n]; null: no norm here
  const float* bias = nullptr;    ///< [n]; or null
  NormKind kind = NormKind::kRms;
  float epsilon = 1e-5F;
};

/// One pass over the residual stream:
///   hidden[i] += residual_scale * post_norm(block[i])      where there is a block
///   out[i] = norm(hidden[i])                               where there is an `out`
/// Without a post_norm.weight the block is added as it is; without a norm.weight `out` is a copy.
struct AddNorm {
  float* hidden = nullptr;       ///< [* x n]; stride n
  const float* block = nullptr;  ///< [rows x n]; or null: hidden is only read
  float residual_scale = 1.0F;
  NormWeights post_norm{};
  NormWeights norm{};
  Rows out{};  ///< [rows x n]; no data: only hidden is updated
  /// [rows]: out[i] is the norm of hidden[row_index[i]], negative: zeros. Only without a block.
  /// Null: i.
  const std::int32_t* row_index = nullptr;
  std::int32_t n = 0;  ///< 1 .. 65536
};
LaunchStatus add_norm(const AddNorm& operands, std::int32_t rows, Stream stream);

/// RMS norm of `vectors` neighbouring vectors of n elements in each row, in place; weight [n]. For
/// q and k: n is head_dim and vectors the number of heads, or n all of them and vectors 1.
LaunchStatus norm_vectors(float* x, std::int32_t stride, std::int32_t rows, std::int32_t vectors,
                          std::int32_t n, const float* weight, float epsilon, Stream stream);

// -- rotary embedding and KV writes (rope.cu, kv_write.cu) ----------------------------------------

/// Storage of K and V. For each block and KV head, in this order:
///   f32, f16, bf16: elements [block_size x head_dim]
///   q8_0: codes int8 [block_size x padded], then f16 scales [block_size x padded / 32], where
///         padded is head_dim filled up to a multiple of 32; element = scale * code
/// Blocks follow each other, heads within a block. Sizes are those of kernels::kv_row_bytes().
enum class KvType : std::uint8_t { kF32, kF16, kBF16, kQ8_0 };

/// Bytes of one position and head.
constexpr std::size_t kv_row_bytes(KvType type, std::int32_t head_dim) {
  const auto dim = static_cast<std::size_t>(head_dim);
  if (type == KvType::kQ8_0) return (dim + 31) / 32 * 34;
  return dim * (type == KvType::kF32 ? 4 : 2);
}

/// One layer's part of the pool. head_dim 1 .. 256; block_size at least 1, even for q8_0.
struct KvLayer {
  void* k = nullptr;
  void* v = nullptr;
  KvType k_type = KvType::kF16;
  KvType v_type = KvType::kF16;
  std::int32_t num_kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t block_size = 0;
};

/// Where rows stand: device arrays, and the block tables of one group of layers.
struct RowPlaces {
  const std::int32_t* positions = nullptr;  ///< [rows]; negative: padding
  const std::int32_t* sequences = nullptr;  ///< [rows]: row of `tables`; read where not padding
  const std::int32_t* tables = nullptr;     ///< [* x table_stride]: block numbers
  std::int32_t table_stride = 0;            ///< blocks a table has room for
};

enum class RopePairs : std::uint8_t {
  kNeighbours,  ///< (0,1), (2,3), ...
  kHalves,      ///< (i, i + pairs)
};

/// cosines, sines [rows x pairs] = magnitude * cos, sin (position * frequencies[i]), computed in
/// double; frequencies [pairs] f64. Rows of padding get zeros. Once a step for each rope table.
LaunchStatus rope_angles(const std::int32_t* positions, std::int32_t rows,
                         const double* frequencies, std::int32_t pairs, double magnitude,
                         float* cosines, float* sines, Stream stream);

/// Turns the first 2 * pairs elements of each head of q (in place) and of k, then writes k and v to
/// the pool. k itself is not changed. Rows of padding are left alone.
struct RotateStore {
  float* q = nullptr;        ///< [rows x q_stride], num_heads * head_dim used
  const float* k = nullptr;  ///< [rows x kv_stride], num_kv_heads * head_dim used
  const float* v = nullptr;  ///< likewise
  std::int32_t q_stride = 0;
  std::int32_t kv_stride = 0;
  std::int32_t num_heads = 0;
  RopePairs layout = RopePairs::kNeighbours;
  std::int32_t pairs = 0;          ///< 0: nothing is turned
  const float* cosines = nullptr;  ///< [rows x pairs] of rope_angles(); may be null without pairs
  const float* sines = nullptr;
};
LaunchStatus rotate_and_store(const RotateStore& operands, const KvLayer& kv,
                              const RowPlaces& places, std::int32_t rows, Stream stream);

// -- attention (attention_decode.cu, attention_prefill.cu) ----------------------------------------

/// Positions that one part of a split covers, counted from position 0.
inline constexpr std::int32_t kAttentionSplit = 256;

/// Row at position p sees those of 0 .. p that lie in the last `window` or below keep_first.
/// Scores are scale * q.k, then softcap * tanh(score / softcap). Both launches below give the same
/// bits for the same row: each sums over parts of kAttentionSplit positions, tiles of 32 within
/// them, ascending.
struct Attention {
  const float* q = nullptr;  ///< [rows x q_stride], rotated
  std::int32_t q_stride = 0;
  Rows out{};                  ///< [rows x num_heads * head_dim]
  std::int32_t num_heads = 0;  ///< a multiple of kv.num_kv_heads
  float scale = 1.0F;
  std::int32_t window = 0;  ///< the row's own position included; 0: all
  std::int32_t keep_first = 0;
  float softcap = 0.0F;          ///< 0: none
  const float* sinks = nullptr;  ///< [num_heads]: one more logit of each softmax; or null
};

/// Floats of work space for attention_decode().
constexpr std::size_t attention_workspace_floats(std::int32_t rows, std::int32_t num_heads,
                                                 std::int32_t head_dim, std::int32_t max_context) {
  const auto size = [](std::int32_t n) { return static_cast<std::size_t>(n); };
  const std::size_t parts = size((max_context + kAttentionSplit - 1) / kAttentionSplit);
  return size(rows) * size(num_heads) * parts * (size(head_dim) + 2);
}

/// Each row by itself; for decoding, but right for any rows. `max_context` (part of the bucket)
/// bounds position + 1 of every row; rows beyond it are treated as padding. Rows of padding get
/// zeros. workspace: attention_workspace_floats(), overwritten.
LaunchStatus attention_decode(const Attention& operands, const KvLayer& kv, const RowPlaces& places,
                              std::int32_t rows, std::int32_t max_context, float* workspace,
                              Stream stream);

/// Some consecutive rows of one sequence, at consecutive positions, one tile of query rows.
struct PrefillTile {
  std::int32_t first_row = 0;
  std::int32_t num_rows = 0;  ///< at most prefill_tile_rows(); 0: padding
};

/// Most rows of a tile, for so many query heads a KV head.
constexpr std::int32_t prefill_tile_rows(std::int32_t num_heads, std::int32_t num_kv_heads) {
  const std::int32_t group = num_kv_heads > 0 ? num_heads / num_kv_heads : 1;
  return group >= 16 ? 1 : (group > 0 ? 16 / group : 1);
}

/// Rows of prompts, tile by tile; tiles [num_tiles], device memory. Rows in no tile are left alone.
LaunchStatus attention_prefill(const Attention& operands, const KvLayer& kv,
                               const RowPlaces& places, const PrefillTile* tiles,
                               std::int32_t num_tiles, Stream stream);

// -- activations and sums (activation.cu, elementwise.cu) -----------------------------------------

enum class Activation : std::uint8_t {
  kSilu,         ///< x / (1 + exp(-x))
  kGelu,         ///< by its tanh form
  kClampedSwish  ///< g sigmoid(1.702 g) (u + 1), g = min(gate, 7), u = up within -7 .. 7
};

/// out = activation(gate) * up, or activation(gate) where `up` is null (not for kClampedSwish).
/// gate, up [rows x n] with one stride; out may be the same memory as gate when its type is f32.
LaunchStatus activate(Activation activation, const float* gate, const float* up,
                      std::int32_t stride, std::int32_t rows, std::int32_t n, const Rows& out,
                      Stream stream);

/// y[i] += bias, y [rows x stride], bias [n].
LaunchStatus add_bias(float* y, std::int32_t stride, std::int32_t rows, std::int32_t n,
                      const float* bias, Stream stream);

/// y += factor * x, both [rows x n], strides n.
LaunchStatus add_scaled(float* y, const float* x, float factor, std::int32_t rows, std::int32_t n,
                        Stream stream);

/// x *= scale, then x = cap * tanh(x / cap) where cap is not 0. [rows x n], stride n.
LaunchStatus scale_and_cap(float* x, std::int32_t rows, std::int32_t n, float scale, float cap,
                           Stream stream);

/// out = x in another type; x [rows x stride].
LaunchStatus convert_rows(const float* x, std::int32_t stride, std::int32_t rows, std::int32_t n,
                          const Rows& out, Stream stream);

/// out[i] = x[row_index[i]], f32 [rows x n], strides n; a negative index gives zeros.
LaunchStatus gather_rows(const float* x, const std::int32_t* row_index, std::int32_t rows,
                         std::int32_t n, float* out, Stream stream);

// -- matrices (quantize_rows.cu, matvec_*.cu, dequantize.cu) --------------------------------------

/// Changes the order of bytes in a matrix as it came from a file, in place, so that products read
/// 16 bytes at a time: in each group of eight neighbouring blocks (of the whole matrix, whatever
/// the rows) first all scales, then all codes; for Q6_K lower bits, upper bits, scales, f16
/// numbers. The numbers and the size stay, and so does every result, bit by bit. Afterwards
/// Weights::arranged must be set. kBadShape unless can_arrange(). data is aligned to 16 bytes.
LaunchStatus arrange_weights(void* data, WeightType type, std::int32_t rows, std::int32_t cols,
                             Stream stream);

/// Inputs rounded to 8 bits: for each 32 columns of a row an f32 scale, largest magnitude / 127,
/// and codes, nearest, ties to even. A group with anything that is not finite gets the scale NaN.
struct RoundedRows {
  std::int8_t* codes = nullptr;  ///< [rows x cols]
  float* scales = nullptr;       ///< [rows x cols / 32]
};

/// x [rows x stride], cols a multiple of 32.
LaunchStatus quantize_rows(const float* x, std::int32_t stride, std::int32_t rows,
                           std::int32_t cols, const RoundedRows& out, Stream stream);

/// y = x W^T + bias, for few rows: weights are read once for every 8 rows. A row's bits do not
/// depend on the number of rows, so it serves any number where that law counts more than time.
/// W plain (f32, f16, bf16): reads x f32 [rows x x_stride]. W quantised: reads `rounded`, the same
/// rows by quantize_rows(); products of codes are summed as integers. y [rows x y_stride].
struct Matvec {
  Weights weights{};
  const float* x = nullptr;  ///< for plain weights
  std::int32_t x_stride = 0;
  RoundedRows rounded{};        ///< for quantised weights
  const float* bias = nullptr;  ///< [weights.rows]; or null
  float* y = nullptr;
  std::int32_t y_stride = 0;
  bool add = false;  ///< y += instead of y =
};
LaunchStatus matvec(const Matvec& operands, std::int32_t rows, Stream stream);

/// out = W as plain numbers, [W.rows x W.cols], stride at least W.cols; for GEMM. Any weight type.
LaunchStatus dequantize(const Weights& weights, const Rows& out, Stream stream);

// -- sampling (sampling_*.cu) ---------------------------------------------------------------------

inline constexpr std::int32_t kMaxTopLogprobs = 20;

struct LogitBias {
  std::int32_t token = 0;
  float bias = 0.0F;
};

/// How one row's token is chosen, as sluice::SamplingParams; in device memory. Lists are parts of
/// the arrays in `Sampling`. Only ranges that the host has checked: first >= 0, count >= 0.
struct RowSampling {
  std::int32_t active = 0;    ///< 0: padding, nothing is read or written but SampleResult::status
  std::int32_t position = 0;  ///< of the token to be drawn
  std::uint64_t seed = 0;
  float temperature = 0.0F;
  float top_p = 1.0F;
  float min_p = 0.0F;
  std::int32_t top_k = 0;
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  std::int32_t num_top_logprobs = 0;
  std::int32_t first_bias = 0;  ///< in Sampling::biases
  std::int32_t num_biases = 0;
  std::int32_t first_banned = 0;  ///< in Sampling::banned; banned whenever listed
  std::int32_t num_banned = 0;
  std::int32_t first_history = 0;  ///< in Sampling::history: all tokens so far, the output last
  std::int32_t num_history = 0;
  std::int32_t num_generated = 0;  ///< of the history
};

enum class SampleStatus : std::int32_t {
  kOk = 0,
  kLogitsNotFinite = 1,    ///< the model's logits
  kAdjustedNotFinite = 2,  ///< after biases and penalties
  kAllBanned = 3,
  kPadding = 4,
};

struct SampleResult {
  std::int32_t status = 0;  ///< a SampleStatus
  std::int32_t id = 0;
  float logprob = 0.0F;          ///< before temperature and truncation, after bias and penalties
  float top_probability = 0.0F;  ///< the largest of them
  std::int32_t num_top = 0;
  std::int32_t top_ids[kMaxTopLogprobs] = {};
  float top_logprobs[kMaxTopLogprobs] = {};
};

/// Bias, penalties, bans, temperature, top-k, top-p, min-p and the draw of (seed, position), in the
/// order and by the rules of sluice::Sampler; Philox4x32-10 as in engine/sampling/philox.hpp.
/// Masses are summed in whole multiples of 2^-44 of the largest weight, so no order matters.
struct Sampling {
  float* logits = nullptr;              ///< [rows x vocab]; changed by biases, penalties and bans
  std::int32_t vocab = 0;               ///< 1 .. 2^18
  const RowSampling* params = nullptr;  ///< [rows]
  const LogitBias* biases = nullptr;    ///< may be null when no row has any; so the next two
  const std::int32_t* banned = nullptr;
  const std::int32_t* history = nullptr;
  std::int32_t* counts = nullptr;   ///< work space [rows x vocab]: zeros before, zeros after
  SampleResult* results = nullptr;  ///< [rows]
  std::int32_t* ids = nullptr;      ///< [rows] or null: the ids again, e.g. to feed the next step;
                                    ///< -1 where there is none
};
LaunchStatus sample(const Sampling& operands, std::int32_t rows, Stream stream);

/// ids[i] = lowest index of the largest of logits[i]; [rows x vocab]. A row with a NaN gives -1.
LaunchStatus argmax(const float* logits, std::int32_t rows, std::int32_t vocab, std::int32_t* ids,
                    Stream stream);

// -- KV blocks (kv_copy.cu) -----------------------------------------------------------------------

/// Where the blocks of one tensor lie: K or V of one layer. Either side may be pinned host memory
/// (swapping); both the same for copies inside the pool. Addresses and block_bytes that are
/// multiples of 16 are copied 16 bytes at a time.
struct BlockRegion {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t block_bytes = 0;
};

struct BlockPair {
  std::int32_t from = 0;
  std::int32_t to = 0;
};

/// Copies block pairs[j].from to pairs[j].to in every region. regions [num_regions], pairs
/// [num_pairs], device memory; a negative `from` or `to` is padding. No block of a call is both
/// written and anything else: dependent moves belong into calls of their own, in their order.
LaunchStatus copy_blocks(const BlockRegion* regions, std::int32_t num_regions,
                         const BlockPair* pairs, std::int32_t num_pairs, Stream stream);

}  // namespace sluice::kernels::cuda
