// Groups of 32 numbers rounded to 8 bits by a warp, one number a lane.
#pragma once

#include "kernels/cuda/device.hpp"

namespace sluice::kernels::cuda {

/// What a group's scale is found from.
struct GroupExtent {
  float largest;  ///< magnitude
  bool finite;    ///< all of them
};

__device__ inline GroupExtent group_extent(float x) {
  const bool all_finite = __ballot_sync(kAllLanes, !finite(x)) == 0U;
  return {warp_max(fabsf(x)), all_finite};
}

/// x / scale to the nearest whole number, ties to even, within -127 .. 127; 0 for a scale of 0.
__device__ inline std::int8_t round_code(float x, float scale) {
  if (scale == 0.0F) return 0;
  const float code = __fdiv_rn(x, scale);
  const float bounded = code > 127.0F ? 127.0F : (code < -127.0F ? -127.0F : code);
  return static_cast<std::int8_t>(__float2int_rn(bounded));
}

}  // namespace sluice::kernels::cuda
