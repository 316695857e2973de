// Products with Q6_K weights. A unit is 8 columns of each of the four runs of 32 in half a block,
// at the same place: their codes share bytes.
#include "kernels/cuda/matvec_rounded.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr int kUnitsPerBlock = 8;
constexpr int kUnitsPerHalf = 4;
constexpr int kRuns = 4;

template <bool kArranged>
struct Q6_K {
  static constexpr int kUnitCols = 32;
  static constexpr int kOutputsOfManyRows = kArranged ? 2 : 1;

  struct Input {
    int codes[kRuns][2];
    float scales[kRuns];

    __device__ Input(const Matvec& operands, int row, int unit) {
      const int cols = operands.weights.cols;
      const int half = unit / kUnitsPerHalf;
      const std::int64_t first = offset_of(row, cols) + 128 * half + unit % kUnitsPerHalf * 8;
      for (int run = 0; run < kRuns; ++run) {
        const int2 both = *reinterpret_cast<const int2*>(operands.rounded.codes + first + 32 * run);
        codes[run][0] = both.x;
        codes[run][1] = both.y;
        scales[run] = operands.rounded.scales[offset_of(row, cols / 32) + 4 * half + run];
      }
    }
  };

  unsigned low[2][2];  ///< nibbles: of runs 0 and 2, of runs 1 and 3
  unsigned high[2];    ///< two bits for each run
  float scales[kRuns];

  static __device__ Q6_K load(const Weights& w, int output, int unit) {
    const std::int64_t block = offset_of(output, w.cols / 256) + unit / kUnitsPerBlock;
    const Q6_KParts parts = parts_q6_k(w.data, kArranged, block);
    const int half = unit % kUnitsPerBlock / kUnitsPerHalf;
    const int place = unit % kUnitsPerHalf * 8;
    Q6_K loaded;
    load_eight(parts.low + 64 * half + place, loaded.low[0]);
    load_eight(parts.low + 64 * half + 32 + place, loaded.low[1]);
    load_eight(parts.high + 32 * half + place, loaded.high);
    // A code of six bits in the upper part of a byte, its first bit turned, is the signed byte
    // 4 (q - 32): so the sums come out 4 times too large.
    const float d = load_half(parts.d) * 0.25F;
    for (int run = 0; run < kRuns; ++run) {
      const auto scale = static_cast<std::int8_t>(parts.scales[8 * half + 2 * run + place / 16]);
      loaded.scales[run] = multiply(d, static_cast<float>(scale));
    }
    return loaded;
  }

  __device__ void dot(const Input& x, float& total) const {
    for (int run = 0; run < kRuns; ++run) {
      int product = 0;
      for (int i = 0; i < 2; ++i) {
        const unsigned nibbles = low[run % 2][i] >> (4 * (run / 2)) & 0x0F0F0F0FU;
        const unsigned upper = high[i] >> (2 * run) & 0x03030303U;
        const unsigned code = (nibbles << 2 | upper << 6) ^ 0x80808080U;
        product = __dp4a(static_cast<int>(code), x.codes[run][i], product);
      }
      total =
          multiply_add(multiply(scales[run], x.scales[run]), static_cast<float>(product), total);
    }
  }

 private:
  static __device__ void load_eight(const unsigned char* at, unsigned* words) {
    if (kArranged) {
      const uint2 both = *reinterpret_cast<const uint2*>(at);
      words[0] = both.x;
      words[1] = both.y;
    } else {
      words[0] = load_u32(at);
      words[1] = load_u32(at + 4);
    }
  }
};

}  // namespace

LaunchStatus matvec_q6_k(const Matvec& operands, std::int32_t rows, Stream stream) {
  return launch_arranged<Q6_K>("matvec_q6_k", operands, rows, stream);
}

}  // namespace sluice::kernels::cuda
