// IQ4_NL: four bits that choose from 16 unevenly spaced values. Layout: ggml, ggml-common.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "kernels/cpu/quantize.hpp"
#include "kernels/cpu/quantize_bytes.hpp"
#include "kernels/cpu/quantize_fit.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t kBlock = 32;
/// Part of the file format, like the layout.
constexpr std::array<float, 16> kValues = {-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};

std::size_t nearest_value(float x) {
  const auto above = std::lower_bound(kValues.begin(), kValues.end(), x);
  if (above == kValues.begin()) return 0;
  if (above == kValues.end()) return kValues.size() - 1;
  const auto index = static_cast<std::size_t>(above - kValues.begin());
  return x - kValues[index - 1] <= kValues[index] - x ? index - 1 : index;
}

struct Sums {
  float xv = 0;
  float vv = 0;
};

Sums sums_at(std::span<const float> x, float inverse) {
  Sums sums;
  for (const float value : x) {
    const float v = kValues[nearest_value(value * inverse)];
    sums.xv += value * v;
    sums.vv += v * v;
  }
  return sums;
}

/// Least-squares scale from the best of several starts, as fit_scale() does for even levels.
float fit(std::span<const float> x) {
  float extreme = 0;
  for (const float value : x) {
    if (std::abs(value) > std::abs(extreme)) extreme = value;
  }
  if (extreme == 0 || !std::isfinite(127.0F / extreme)) return 0;
  float best_gain = 0;
  float best = 0;
  for (const float end : {kValues.front(), kValues.back()}) {
    for (int k = -9; k <= 9; ++k) {
      const Sums sums = sums_at(x, end * (1.0F + 0.02F * static_cast<float>(k)) / extreme);
      const float gain = sums.xv * sums.xv / sums.vv;  // no value is 0
      if (gain > best_gain) {
        best_gain = gain;
        best = sums.xv / sums.vv;
      }
    }
  }
  return best;
}

}  // namespace

void quantize_iq4_nl(const float* src, std::byte* dst, std::size_t n) {
  for (; n != 0; n -= kBlock, src += kBlock, dst += 18) {
    const std::span<const float> x(src, kBlock);
    if (!can_be_scaled(x)) {
      std::memset(dst, 0, 18);
      continue;
    }
    const float inverse = inverse_of(store_half(dst, fit(x)));
    for (std::size_t j = 0; j < kBlock / 2; ++j) {
      const auto low = static_cast<int>(nearest_value(x[j] * inverse));
      const auto high = static_cast<int>(nearest_value(x[j + kBlock / 2] * inverse));
      store_byte(dst, 2 + j, low | high << 4);
    }
  }
}

}  // namespace sluice::kernels
