// What the engine will take, computed before anything is taken.
//
//   bytes per token = sum over the layers of KV heads x (bytes of head_dim K elements + bytes of
//                     head_dim V elements), each layer with its own types
//
// Worked example (the 7B class: 32 layers, 32 KV heads of 128, f16): 16 KiB a token and layer,
// 512 KiB a token, 2 GiB at 4096 positions, 16 GiB for 8 such sequences.
//
// Layers with a window (the model's own, or a budget's) hold no more than the window; see
// pool_sizing.hpp for their blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/formats/dtype.hpp"
#include "engine/kv/kv_layout.hpp"
#include "engine/kv/kv_manager.hpp"
#include "engine/kv/pool_sizing.hpp"
#include "engine/model/kv_types.hpp"
#include "engine/model/model_config.hpp"

namespace sluice {

struct PlanRequest {
  Position context = 0;        ///< positions for one sequence; 0: the model's own, or as much
                               ///< of it as fits
  std::int32_t sequences = 0;  ///< at that context at the same time; 0: as many as fit, at most
                               ///< default_sequences
  std::int32_t default_sequences = 16;
  std::int32_t block_size = 16;
  DType kv_type_k = DType::kF16;
  DType kv_type_v = DType::kF16;
  std::vector<KvLayerTypes> kv_layers{};   ///< exceptions from these, layer by layer
  KvBudget budget{};                       ///< its trimming is in the ModelConfig already
  std::size_t swap_bytes = 0;              ///< for blocks of preempted sequences; 0: none
  std::string swap_file{};                 ///< where they go; empty: main memory
  Position prefill_chunk = 256;            ///< tokens of one sequence in a step
  std::size_t measured_scratch_bytes = 0;  ///< by a warm-up; 0: an upper bound is computed
  std::size_t device_scratch_bytes = 0;    ///< that bound for a device; 0: the CPU backend's
  bool on_device = false;  ///< the memory is a device's; swap space lies in main memory
  Position max_batch_tokens = 512;
  std::int32_t threads = 0;            ///< of the backend; 0: as many as the machine has
  std::size_t memory_limit_bytes = 0;  ///< 0: what the machine has available now
  double headroom = 0.12;              ///< share of the limit left unallocated
};

/// Which of the limits binds.
enum class PlanLimit {
  kRequest,       ///< the settings: memory is left over, the model allows longer sequences
  kMemory,        ///< with more memory, more or longer sequences would fit
  kModelContext,  ///< memory is left over, and sequences are as long as the model allows
};

struct MemoryPlan {
  std::size_t limit_bytes = 0;
  std::size_t headroom_bytes = 0;
  std::size_t weights_bytes = 0;
  std::size_t scratch_bytes = 0;
  bool scratch_measured = false;
  std::size_t kv_bytes_per_token_layer = 0;  ///< of a layer without types of its own
  std::size_t kv_bytes_per_token = 0;        ///< all layers, as long as no window is full
  std::size_t kv_bytes_per_sequence = 0;     ///< at `context`
  std::size_t kv_pool_bytes = 0;
  std::int32_t block_size = 0;
  std::int32_t num_blocks = 0;  ///< of the first group
  std::vector<PlanGroup> groups{};
  std::vector<std::int32_t> group_of_layer{};
  std::size_t swap_bytes = 0;
  std::string swap_file{};
  bool on_device = false;
  Position max_chunk = 512;
  Position context = 0;
  std::int32_t sequences = 0;             ///< that fit at `context` at the same time
  Position max_context_one_sequence = 0;  ///< if it had the pool (and the model allows it)
  PlanLimit binding = PlanLimit::kRequest;
  DType kv_type_k = DType::kF16;
  DType kv_type_v = DType::kF16;
  std::vector<KvLayerTypes> kv_layers{};

  /// Swap space counts when it is in the memory that is planned.
  std::size_t total_bytes() const {
    const bool beside = swap_file.empty() && !on_device;
    return weights_bytes + scratch_bytes + kv_pool_bytes + (beside ? swap_bytes : 0);
  }
};

/// What the KV manager has to know of a plan.
KvManagerOptions kv_manager_options(const MemoryPlan& plan);

/// Throws Error(kDoesNotFit) that says by how much and which settings would fit;
/// Error(kInvalidArgument) for settings that contradict the model.
MemoryPlan make_plan(const ModelConfig& config, std::size_t weights_bytes,
                     const PlanRequest& request);

/// Upper bound of the CPU backend's work buffers for a step of `max_batch_tokens`, of which
/// `max_sampled_rows` draw a token; 0 threads: as many as the machine has.
std::size_t estimate_scratch_bytes(const ModelConfig& config, Position max_batch_tokens,
                                   std::int32_t max_sampled_rows, std::int32_t threads = 0);

/// Bytes of memory that the machine can still give (Linux: MemAvailable; the limits of the
/// process's cgroups, version 2 and 1, heeded). `root` is where /proc and /sys lie; for tests.
std::size_t available_memory_bytes(const std::filesystem::path& root = "/");

/// "512 KiB", "2 GiB", "1.95 GiB": binary units, three significant digits, whole numbers where
/// exact.
std::string format_bytes(std::size_t bytes);

/// The table that `serve` and `plan` print.
std::string plan_table(const MemoryPlan& plan, const ModelConfig& config);

/// The same for programs: one JSON object, all sizes in bytes.
std::string plan_json(const MemoryPlan& plan, const ModelConfig& config);

}  // namespace sluice
