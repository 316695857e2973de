// The arithmetic of a decoder on a CPU: a table of functions, one table per instruction set.
//
// The law: an output element is computed by the same sequence of operations whatever else is
// computed with it. It depends neither on the number of rows, nor on how a loop was cut into
// pieces, nor on where the KV blocks lie. (Another instruction set may round differently.)
//
// All activations are f32, row-major, [rows x columns] with a row stride in floats. The functions
// do not allocate, throw or start threads; each call computes a part that the caller chose.
//
// Worked example: y = x W^T for 3 rows of 896 activations and a [4864 x 896] weight:
//   table.matmul({data, 4864, 896, row_bytes, WeightEncoding::kQ8_0, nullptr},
//                {x, 896, 3, y, 4864}, 0, 4864, workspace);
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/cpu_info.hpp"
#include "kernels/cpu/packed_matrix.hpp"

namespace sluice::kernels {

/// Weight encodings with kernels of their own; every other one goes through `dequantize`.
enum class WeightEncoding : std::uint8_t { kF32, kF16, kBF16, kQ8_0, kOther };

/// [rows x cols]: maps `cols` input features to `rows` output features; row after row.
struct WeightMatrix {
  const std::byte* data = nullptr;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t row_bytes = 0;
  WeightEncoding encoding = WeightEncoding::kF32;
  /// Decodes n elements; used when the encoding is kOther.
  void (*dequantize)(const std::byte* src, float* dst, std::size_t n) = nullptr;
  PackedFormat packable = PackedFormat::kNone;  ///< how it could be packed
  const std::byte* packed = nullptr;            ///< the packed copy, which products then use
};

/// Where a matmul reads x [rows x w.cols] and writes y [rows x w.rows].
struct MatmulOperands {
  const float* x = nullptr;
  std::size_t x_stride = 0;
  std::size_t rows = 0;
  float* y = nullptr;
  std::size_t y_stride = 0;
};

/// Floats of work space that a matmul with this many columns needs, for one thread.
std::size_t matmul_workspace_floats(std::size_t cols);

/// Storage of K and V elements. The last two are quantised: groups of 32 elements of one position
/// and head share an f16 scale, and each element is an 8- or 4-bit code. Heads that are no
/// multiple of 32 are filled up to one.
enum class KvEncoding : std::uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0 };

/// Bytes of `elements` elements of one position and head.
std::size_t kv_row_bytes(KvEncoding encoding, std::size_t elements);

/// One layer of the KV pool, in elements:
///   K [block][kv head][key_dim][block_size]    a column is a position: scores are computed for
///                                              neighbouring positions side by side
///   V [block][kv head][block_size][head_dim]
/// Quantised, with G = groups of 32 in a row:
///   K [block][kv head]{codes [G * 32 (8 bit) or G * 16 bytes (4 bit)][block_size],
///                      scales [G][block_size]}
///   V [block][kv head][block_size][G]{scale, codes}, the blocks of GGUF's types of these names
/// A byte of 4-bit codes holds elements r (low) and 16 + r (high) of its group.
struct KvLayer {
  std::byte* k = nullptr;
  std::byte* v = nullptr;
  KvEncoding k_encoding = KvEncoding::kF16;
  KvEncoding v_encoding = KvEncoding::kF16;
  std::size_t num_kv_heads = 0;
  std::size_t head_dim = 0;
  std::size_t block_size = 0;
  std::size_t key_dim = 0;  ///< elements of a key, when they are fewer than head_dim; 0: head_dim
};

/// Query rows of one sequence. Row i stands at position p = first_position + i and sees, of the
/// positions 0 .. p, those of the last `window`, those below `keep_first` and the multiples of
/// `every`. They are found through the block table; entries of blocks that no row of a call sees
/// are not looked at.
///
/// Worked examples: window 4, keep_first 1: position 9 sees 0, 6, 7, 8, 9. Window 4, every 3:
/// position 9 sees 0, 3, 6, 7, 8, 9. first_seen 5: position 9 sees 5 to 9. seen_end 3: it sees 0,
/// 1, 2, like every other row.
struct AttentionOperands {
  const float* q = nullptr;  ///< [rows x num_heads * key_dim], rotated
  float* out = nullptr;      ///< [rows x num_heads * head_dim]
  std::size_t stride = 0;    ///< of a row of either
  std::size_t num_heads = 0;
  float scale = 1.0F;  ///< of q . k, usually 1 / sqrt(head_dim)
  std::size_t first_position = 0;
  const std::int32_t* blocks = nullptr;
  std::size_t window = 0;        ///< the row's own position included; 0: all
  std::size_t keep_first = 0;    ///< positions below it are always seen
  float softcap = 0.0F;          ///< scores become softcap * tanh(score / softcap); 0: unchanged
  const float* sinks = nullptr;  ///< [num_heads]: one more logit of each softmax, without value
  /// Before the window every so many positions are seen; 0: none. Only with a window and without
  /// keep_first.
  std::size_t every = 0;
  std::size_t first_seen = 0;  ///< positions below it are not seen
  /// Every row sees the positions 0 .. seen_end - 1, wherever it stands, and no others; 0: as
  /// above.
  std::size_t seen_end = 0;
  /// [num_heads x (2 bias_reach + 1)]: added to the score of query position p and key position j:
  /// element j - p + bias_reach, j - p held within -bias_reach .. bias_reach; or null.
  const float* bias = nullptr;
  std::size_t bias_reach = 0;
};

/// Positions that attention takes at a time, counted from position 0.
inline constexpr std::size_t kAttentionTile = 64;
/// Positions after which attention starts afresh, counted from position 0: what a row makes of each
/// span is merged afterwards, so that several threads can work on one row. Whole tiles.
inline constexpr std::size_t kAttentionSpan = 1024;
/// Most query rows of one attention call.
inline constexpr std::size_t kAttentionRows = 32;

/// Floats of work space for one attention call.
std::size_t attention_workspace_floats(std::size_t num_heads, std::size_t num_kv_heads,
                                       std::size_t head_dim);

/// Spans [begin, end).
struct SpanRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The spans that hold what a row at `position` sees. What it keeps or strides over before its
/// window may lie in earlier ones. Never empty.
SpanRange attention_spans(const AttentionOperands& operands, std::size_t position);

/// Floats of one attention part: maximum, sum and head_dim outputs for each query head.
constexpr std::size_t attention_part_floats(std::size_t query_heads, std::size_t head_dim) {
  return query_heads * (head_dim + 2);
}

struct KernelTable {
  Isa isa = Isa::kScalar;

  /// y[:, begin:end] = x W[begin:end]^T. Work space: matmul_workspace_floats(w.cols).
  void (*matmul)(const WeightMatrix& w, const MatmulOperands& operands, std::size_t begin,
                 std::size_t end, float* workspace) = nullptr;

  /// y = x / sqrt(mean(x^2) + epsilon) * weight, for one row of n (Zhang and Sennrich 2019).
  void (*rms_norm)(const float* x, const float* weight, float epsilon, std::size_t n,
                   float* y) = nullptr;

  /// y = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias, for one row of n (Ba et al.
  /// 2016); without a bias when that is null.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float epsilon,
                     std::size_t n, float* y) = nullptr;

  /// y = silu(y), silu(x) = x / (1 + exp(-x)).
  void (*silu)(float* y, std::size_t n) = nullptr;
  /// gate = silu(gate) * up.
  void (*silu_multiply)(float* gate, const float* up, std::size_t n) = nullptr;

  /// y = gelu(y) by its tanh form (Hendrycks and Gimpel 2016).
  void (*gelu)(float* y, std::size_t n) = nullptr;
  /// gate = gelu(gate) * up.
  void (*gelu_multiply)(float* gate, const float* up, std::size_t n) = nullptr;

  /// gate = g * sigmoid(1.702 g) * (u + 1), g = min(gate, 7), u = up within -7 .. 7.
  void (*clamped_swish_multiply)(float* gate, const float* up, std::size_t n) = nullptr;

  /// y *= factor.
  void (*scale)(float* y, float factor, std::size_t n) = nullptr;
  /// y += factor * x.
  void (*add_scaled)(float* y, const float* x, float factor, std::size_t n) = nullptr;
  /// y = cap * tanh(y / cap).
  void (*soft_cap)(float* y, float cap, std::size_t n) = nullptr;

  /// y += x.
  void (*add)(float* y, const float* x, std::size_t n) = nullptr;

  /// Writes K [num_kv_heads x key_dim] and V [num_kv_heads x head_dim] of one position to row
  /// `offset` of `block`. Touches no byte of another position.
  void (*write_kv)(const KvLayer& layer, std::size_t block, std::size_t offset, const float* k,
                   const float* v) = nullptr;

  /// Softmax attention of query rows [row_begin, row_end), at most kAttentionRows, for the query
  /// heads that share `kv_head`. Accumulates over tiles of positions in ascending order with a
  /// running maximum (Milakov and Gimelshein 2018); a sink is where they start. Each span of
  /// kAttentionSpan positions starts afresh, and the spans are merged in ascending order.
  void (*attention)(const KvLayer& layer, const AttentionOperands& operands, std::size_t kv_head,
                    std::size_t row_begin, std::size_t row_end, float* workspace) = nullptr;
  /// The same for one row and the positions in `spans` alone, into `part`
  /// (attention_part_floats); operands.out is not touched. For attention_merge.
  void (*attention_part)(const KvLayer& layer, const AttentionOperands& operands,
                         std::size_t kv_head, std::size_t row, SpanRange spans, float* part,
                         float* workspace) = nullptr;
  /// Writes the outputs of one row from its `count` parts, which lie one behind the other and are
  /// overwritten. The first holds span 0 and any number of spans after it, the others one each, in
  /// ascending order. Gives the bits of `attention`.
  void (*attention_merge)(const KvLayer& layer, const AttentionOperands& operands,
                          std::size_t kv_head, std::size_t row, float* parts,
                          std::size_t count) = nullptr;

  PackedKernels packed = {};       ///< integer formats, by the best set that `isa` includes
  PackedKernels packed_bf16 = {};  ///< empty where there is no instruction for it
  PackedKernels packed_f16 = {};   ///< likewise

  /// Empty when this machine has no kernels for the format.
  const PackedKernels& packed_for(PackedFormat format) const {
    if (format == PackedFormat::kF16) return packed_f16;
    return format == PackedFormat::kBF16 ? packed_bf16 : packed;
  }
};

/// The kernels of one instruction set, which must be supported (isa_supported).
const KernelTable& kernel_table(Isa isa);

}  // namespace sluice::kernels
