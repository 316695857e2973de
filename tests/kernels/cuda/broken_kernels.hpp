// Kernels with one fault each, which the shim has to find.
#pragma once

#include "kernels/cuda/launch_types.hpp"

namespace sluice::kernels::cuda {

enum class Fault {
  kNone,
  kReadBehind,       ///< one element behind the end
  kWriteBehind,      ///< likewise
  kWriteBefore,      ///< one element before the start
  kWriteFarBehind,   ///< 3000 bytes behind the end
  kSharedBehind,     ///< of shared memory
  kBarrierInBranch,  ///< half of the threads leave before a barrier
  kTwoBarriers,      ///< halves wait at different barriers
  kShuffleInBranch,  ///< half of a warp shuffles
  kShuffleOfLeft,    ///< lane 0 has left
  kMissingBarrier,   ///< reads what a neighbour may not have written yet
  kUnwrittenShared,  ///< reads shared memory that nobody wrote
};

/// out[i] = twice in[i], for 64 values, unless the fault changes that. One block of 64 threads.
LaunchStatus broken(Fault fault, const float* in, float* out, Stream stream);

}  // namespace sluice::kernels::cuda
