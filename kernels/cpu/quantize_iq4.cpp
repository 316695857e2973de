// IQ4_NL: four bits that choose from 16 unevenly spaced values. Layout: ggml, ggml-common.h.
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
  std::size_t index = 0;
  for (std::size_t i = 0; i + 1 < kValues.size(); ++i) {
    if (x > (kValues[i] + kValues[i + 1]) / 2) ++index;
  }
  return index;
}

struct Sums {
  float xv = 0;
  float vv = 0;
};

/// The values are found by adding up steps, which runs in lanes; all of it is exact.
Sums sums_at(std::span<const float> x, float inverse) {
  Lanes xv{};
  Lanes vv{};
  for (std::size_t first = 0; first < x.size(); first += kLanes) {
    Lanes scaled{};
    Lanes value{};
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      scaled[lane] = x[first + lane] * inverse;
      value[lane] = kValues.front();
    }
    for (std::size_t i = 0; i + 1 < kValues.size(); ++i) {
      const float step = kValues[i + 1] - kValues[i];
      const float border = (kValues[i] + kValues[i + 1]) / 2;
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        value[lane] += scaled[lane] > border ? step : 0.0F;
      }
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      xv[lane] += x[first + lane] * value[lane];
      vv[lane] += value[lane] * value[lane];
    }
  }
  return {sum_of(xv), sum_of(vv)};
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
