// Rotary position embedding (Su et al. 2021), and K and V into the paged pool.
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/kv_storage.hpp"
#include "kernels/cuda/rounding.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kHeadsPerBlock = kThreads / kWarp;

/// Grid: (pairs / kThreads, rows). In double: the angle of a late position needs the digits.
__global__ void rope_angles_kernel(const std::int32_t* positions, int rows,
                                   const double* frequencies, int pairs, double magnitude,
                                   float* cosines, float* sines) {
  const int i = block_x() * kThreads + thread_x();
  if (i >= pairs) return;
  for (int row = block_y(); row < rows; row += static_cast<int>(gridDim.y)) {
    const int position = positions[row];
    const std::int64_t at = offset_of(row, pairs) + i;
    double cosine = 0.0;
    double sine = 0.0;
    if (position >= 0) sincos(static_cast<double>(position) * frequencies[i], &sine, &cosine);
    cosines[at] = static_cast<float>(cosine * magnitude);
    sines[at] = static_cast<float>(sine * magnitude);
  }
}

/// Cosines and sines of one row.
struct RowAngles {
  const float* cosines;
  const float* sines;
  int pairs;
  RopePairs layout;
};

__device__ float turned_first(float a, float b, float cosine, float sine) {
  return sum(multiply(a, cosine), -multiply(b, sine));
}
__device__ float turned_second(float a, float b, float cosine, float sine) {
  return sum(multiply(a, sine), multiply(b, cosine));
}

/// A warp turns a head in place.
__device__ void turn_head(float* x, const RowAngles& angles) {
  for (int p = lane_index(); p < angles.pairs; p += kWarp) {
    const bool neighbours = angles.layout == RopePairs::kNeighbours;
    float& first = x[neighbours ? 2 * p : p];
    float& second = x[neighbours ? 2 * p + 1 : p + angles.pairs];
    const float a = first;
    const float b = second;
    first = turned_first(a, b, angles.cosines[p], angles.sines[p]);
    second = turned_second(a, b, angles.cosines[p], angles.sines[p]);
  }
}

/// Element i of a turned head; x is not changed.
__device__ float turned_element(const float* x, const RowAngles& angles, int i) {
  if (i >= 2 * angles.pairs) return x[i];
  const bool neighbours = angles.layout == RopePairs::kNeighbours;
  const int p = neighbours ? i / 2 : i % angles.pairs;
  const bool is_first = neighbours ? i % 2 == 0 : i < angles.pairs;
  const float a = x[neighbours ? 2 * p : p];
  const float b = x[neighbours ? 2 * p + 1 : p + angles.pairs];
  return is_first ? turned_first(a, b, angles.cosines[p], angles.sines[p])
                  : turned_second(a, b, angles.cosines[p], angles.sines[p]);
}

/// A warp writes element(i), i below head_dim, to one position of a head's block.
template <class Element>
__device__ void store_head(const KvTensor& tensor, unsigned char* head_block, int offset,
                           const Element& element) {
  const int lane = lane_index();
  const int dim = tensor.head_dim;
  if (tensor.type != KvType::kQ8_0) {
    for (int i = lane; i < dim; i += kWarp)
      store_element(head_block, plain_type(tensor.type), offset * dim + i, element(i));
    return;
  }
  std::int8_t* const codes = kv_codes(tensor, head_block, offset);
  std::uint16_t* const scales = kv_scales(tensor, head_block, offset);
  for (int group = 0; group < kv_groups(dim); ++group) {
    const int i = group * kKvGroup + lane;
    const float x = i < dim ? element(i) : 0.0F;
    const GroupExtent extent = group_extent(x);
    // A fault must show: what is not finite makes the whole group not a number.
    const float wanted = extent.largest / 127.0F;
    const std::uint16_t scale = extent.finite ? float_to_half(wanted > 65504.0F ? 65504.0F : wanted)
                                              : std::uint16_t{0x7E00};
    codes[i] = extent.finite ? round_code(x, half_to_float(scale)) : std::int8_t{0};
    if (lane == 0) scales[group] = scale;
  }
}

/// Grid: (heads of q, k and v / kHeadsPerBlock, rows). One warp a head.
__global__ void __launch_bounds__(kThreads)
    rotate_and_store_kernel(RotateStore operands, KvLayer kv, RowPlaces places, int rows) {
  const int head = block_x() * kHeadsPerBlock + warp_index();
  if (head >= operands.num_heads + 2 * kv.num_kv_heads) return;
  for (int row = block_y(); row < rows; row += static_cast<int>(gridDim.y)) {
    const int position = places.positions[row];
    if (position < 0) continue;
    const std::int64_t at = offset_of(row, operands.pairs);
    const RowAngles angles{operands.cosines + at, operands.sines + at, operands.pairs,
                           operands.layout};
    if (head < operands.num_heads) {
      turn_head(operands.q + offset_of(row, operands.q_stride) + head * kv.head_dim, angles);
      continue;
    }
    const int block = block_of(places, places.sequences[row], position, kv.block_size);
    if (block < 0) continue;
    const bool is_key = head - operands.num_heads < kv.num_kv_heads;
    const int kv_head = (head - operands.num_heads) % kv.num_kv_heads;
    const float* const x = (is_key ? operands.k : operands.v) + offset_of(row, operands.kv_stride) +
                           kv_head * kv.head_dim;
    const KvTensor tensor = is_key ? keys_of(kv) : values_of(kv);
    const RowAngles turns{angles.cosines, angles.sines, is_key ? angles.pairs : 0, angles.layout};
    store_head(tensor, kv_head_block(tensor, block, kv_head), position % kv.block_size,
               [&](int i) { return turned_element(x, turns, i); });
  }
}

}  // namespace

LaunchStatus rope_angles(const std::int32_t* positions, std::int32_t rows,
                         const double* frequencies, std::int32_t pairs, double magnitude,
                         float* cosines, float* sines, Stream stream) {
  constexpr const char* kName = "rope_angles";
  if (positions == nullptr || frequencies == nullptr || cosines == nullptr || sines == nullptr ||
      rows < 0 || pairs < 1)
    return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  return launch(kName, rope_angles_kernel, grid_of(divide_up(pairs, kThreads), grid_rows(rows)),
                kThreads, 0, stream, positions, rows, frequencies, pairs, magnitude, cosines,
                sines);
}

LaunchStatus rotate_and_store(const RotateStore& operands, const KvLayer& kv,
                              const RowPlaces& places, std::int32_t rows, Stream stream) {
  constexpr const char* kName = "rotate_and_store";
  if (operands.q == nullptr || operands.k == nullptr || operands.v == nullptr ||
      operands.num_heads < 1 || !well_formed(kv) || !well_formed(places) || rows < 0 ||
      operands.pairs < 0 || 2 * operands.pairs > kv.head_dim ||
      operands.q_stride / kv.head_dim < operands.num_heads ||
      operands.kv_stride / kv.head_dim < kv.num_kv_heads ||
      (operands.pairs > 0 && (operands.cosines == nullptr || operands.sines == nullptr)))
    return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  const std::int64_t heads = operands.num_heads + 2 * std::int64_t{kv.num_kv_heads};
  return launch(kName, rotate_and_store_kernel,
                grid_of(divide_up(heads, kHeadsPerBlock), grid_rows(rows)), kThreads, 0, stream,
                operands, kv, places, rows);
}

}  // namespace sluice::kernels::cuda
