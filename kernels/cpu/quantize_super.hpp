// Super-blocks of 256: groups with small whole scales, and one or two f16 numbers for all.
//
// The groups are fitted one by one; then the common numbers and the whole scales are improved in
// turn, each as the best for the others: the rounding of the scales is part of the error too.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "kernels/cpu/quantize_bytes.hpp"
#include "kernels/cpu/quantize_fit.hpp"

namespace sluice::kernels {

constexpr std::size_t kSuperBlock = 256;
/// Rounds of improvement; further ones change nothing that can be measured.
constexpr int kSuperRounds = 2;

/// x ~ d * scale * q - dmin * min, all of scale, min and q whole and at least 0.
template <std::size_t kGroup>
struct MinimumBlock {
  static constexpr std::size_t kGroups = kSuperBlock / kGroup;
  using Group = std::span<const float, kGroup>;

  int max_level;  ///< of q
  int max_scale;  ///< of scale and min
  float d = 0;    ///< as f16 stores it
  float dmin = 0;
  std::array<int, kGroups> scale{};
  std::array<int, kGroups> min{};

  void fit(std::span<const float, kSuperBlock> x) {
    std::array<ScaleAndOffset, kGroups> fits{};
    float largest_scale = 0;
    float largest_min = 0;
    for (std::size_t g = 0; g < kGroups; ++g) {
      fits[g] = fit_scale_and_offset(group(x, g), max_level, true);
      largest_scale = std::max(largest_scale, fits[g].scale);
      largest_min = std::max(largest_min, -fits[g].offset);
    }
    set_common(largest_scale / static_cast<float>(max_scale),
               largest_min / static_cast<float>(max_scale));
    for (std::size_t g = 0; g < kGroups; ++g) {
      scale[g] = clamped_level(fits[g].scale * inverse_of(d), {0, max_scale});
      min[g] = clamped_level(-fits[g].offset * inverse_of(dmin), {0, max_scale});
    }
    for (int round = 0; round < kSuperRounds; ++round) {
      improve_common(x);
      for (std::size_t g = 0; g < kGroups; ++g) improve_group(group(x, g), g);
    }
  }

  std::array<int, kSuperBlock> levels(std::span<const float, kSuperBlock> x) const {
    std::array<int, kSuperBlock> q{};
    for (std::size_t g = 0; g < kGroups; ++g) {
      const Step step = step_of(g);
      for (std::size_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
        q[i] = static_cast<int>(step.level(x[i], max_level));
      }
    }
    return q;
  }

 private:
  /// What scale and minimum of a group come to.
  struct Step {
    float size = 0;
    float inverse = 0;
    float offset = 0;
    float level(float x, int highest) const {
      return nearest_level((x + offset) * inverse, 0.0F, static_cast<float>(highest));
    }
  };
  Step step_of(std::size_t g) const {
    const float size = d * static_cast<float>(scale[g]);
    return {size, inverse_of(size), dmin * static_cast<float>(min[g])};
  }

  static Group group(std::span<const float, kSuperBlock> x, std::size_t g) {
    return Group(x.data() + g * kGroup, kGroup);
  }
  void set_common(float new_d, float new_dmin) {
    d = half_to_float(float_to_half(new_d));
    dmin = half_to_float(float_to_half(new_dmin));
  }

  /// Least squares for d and dmin at the present scales, minima and levels.
  void improve_common(std::span<const float, kSuperBlock> x) {
    float aa = 0;
    float ab = 0;
    float bb = 0;
    float ax = 0;
    float bx = 0;
    for (std::size_t g = 0; g < kGroups; ++g) {
      const Step step = step_of(g);
      Lanes q{};
      Lanes qq{};
      Lanes xq{};
      Lanes sum{};
      for_lanes(kGroup, [&, first = g * kGroup](std::size_t i, std::size_t lane) {
        const float value = x[first + i];
        const float level = step.level(value, max_level);
        q[lane] += level;
        qq[lane] += level * level;
        xq[lane] += value * level;
        sum[lane] += value;
      });
      // a = scale * q, b = min for every element of the group.
      const auto s = static_cast<float>(scale[g]);
      const auto m = static_cast<float>(min[g]);
      aa += s * s * sum_of(qq);
      ab += s * m * sum_of(q);
      bb += m * m * static_cast<float>(kGroup);
      ax += s * sum_of(xq);
      bx += m * sum_of(sum);
    }
    const float determinant = aa * bb - ab * ab;
    float new_d = d;
    float new_dmin = dmin;
    if (determinant > 1e-6F * aa * bb) {
      new_d = (bb * ax - ab * bx) / determinant;
      new_dmin = (ab * ax - aa * bx) / determinant;
    } else if (aa > 0 && bb == 0) {
      new_d = ax / aa;
    }
    if (new_d > 0 && new_dmin >= 0 && std::isfinite(new_d) && std::isfinite(new_dmin)) {
      set_common(new_d, new_dmin);
    }
  }

  float error(Group x, std::size_t g) const {
    const Step step = step_of(g);
    Lanes sum{};
    for_lanes(kGroup, [&](std::size_t i, std::size_t lane) {
      const float difference = step.size * step.level(x[i], max_level) - step.offset - x[i];
      sum[lane] += difference * difference;
    });
    return sum_of(sum);
  }

  /// The best of the neighbouring whole scales and minima.
  void improve_group(Group x, std::size_t g) {
    const int scale_before = scale[g];
    const int min_before = min[g];
    float best = error(x, g);
    std::array<int, 2> chosen{scale_before, min_before};
    for (int s = std::max(0, scale_before - 1); s <= std::min(max_scale, scale_before + 1); ++s) {
      for (int m = std::max(0, min_before - 1); m <= std::min(max_scale, min_before + 1); ++m) {
        scale[g] = s;
        min[g] = m;
        const float e = error(x, g);
        if (e < best) {
          best = e;
          chosen = {s, m};
        }
      }
    }
    scale[g] = chosen[0];
    min[g] = chosen[1];
  }
};

/// x ~ d * scale * q in 16 groups of 16, scale and q whole numbers of either sign.
struct SignedBlock {
  static constexpr std::size_t kGroup = 16;
  static constexpr std::size_t kGroups = kSuperBlock / kGroup;
  using Group = std::span<const float, kGroup>;

  Levels levels;  ///< of q
  Levels scales;
  float d = 0;  ///< as f16 stores it
  std::array<int, kGroups> scale{};

  void fit(std::span<const float, kSuperBlock> x);
  std::array<int, kSuperBlock> quantized(std::span<const float, kSuperBlock> x) const;

 private:
  float level(float x, float inverse) const {
    return nearest_level(x * inverse, static_cast<float>(levels.lowest),
                         static_cast<float>(levels.highest));
  }
  void improve_common(std::span<const float, kSuperBlock> x);
  void improve_group(Group x, std::size_t g);
  float error(Group x, std::size_t g) const;
};

}  // namespace sluice::kernels
