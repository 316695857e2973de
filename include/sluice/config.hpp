// What an engine is made of, and what it will take.
//
//   sluice::Config config;
//   config.model = "model.gguf";
//   config.context = 4096;                            // positions of one sequence
//   config.sequences = 8;                             // at that length, at the same time
//   std::puts(sluice::plan(config).table.c_str());    // nothing is allocated yet
//
// With a model of the 7B class and f16 keys and values that is 512 KiB a token, 2 GiB a sequence,
// 16 GiB for the eight, besides the weights.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "sluice/version.hpp"

namespace sluice {
namespace SLUICE_PUBLIC v0 {

/// How often a failed backend is replaced before every stream ends with `backend_failed`.
struct RestartPolicy {
  int max_restarts = 3;                       ///< within `window`
  std::chrono::milliseconds window{60000};    ///< the time that counts
  std::chrono::milliseconds first_pause{50};  ///< doubles with every restart in the window
};

/// Settings of one engine. The defaults suit one service on one machine.
struct Config {
  /// A GGUF file (the first part of a split one) or a Hugging Face folder.
  std::filesystem::path model{};

  /// Positions (prompt and answer) of one sequence. 0: the model's own, or what fits.
  std::int32_t context = 0;
  /// Sequences of that length at the same time. 0: as many as fit, at most 16.
  std::int32_t sequences = 0;
  /// For everything together, in bytes. 0: what the machine has available.
  std::size_t memory_limit_bytes = 0;
  double headroom = 0.12;           ///< share of the limit left unallocated
  std::int32_t block_size = 16;     ///< positions in a KV block
  std::string kv_type = "f16";      ///< f32, f16, bf16, q8_0, q4_0, or K/V such as "q8_0/f16"
  std::size_t swap_bytes = 0;       ///< for preempted sequences; 0: they are computed again
  std::filesystem::path swap_file;  ///< where these go; empty: main memory

  std::int32_t threads = 0;             ///< that compute; 0: one per physical core
  bool precise = false;                 ///< activations in f32: slower, a little more exact
  bool prefix_cache = true;             ///< the KV of prompts with the same beginning is reused
  std::int32_t max_batch_tokens = 512;  ///< tokens in one step, all sequences together
  std::int32_t prefill_chunk = 256;     ///< tokens of one prompt in a step
  bool warm_up = false;                 ///< run the largest steps once, before the first stream

  std::int32_t max_running = 64;                ///< sequences that hold KV; more wait
  std::int32_t max_waiting = 1024;              ///< length of the queue; one more is refused
  std::size_t max_waiting_tokens = 1 << 20;     ///< prompt tokens in the queue
  std::chrono::milliseconds queue_deadline{0};  ///< longest wait in it; 0: no limit
  std::int32_t default_max_new_tokens = 512;    ///< where a request does not say
  /// Tokens of a stream on their way to its listener at most: how far the model runs ahead of a
  /// listener that is slow to acknowledge.
  std::int32_t credit_window = 16;
  std::chrono::milliseconds heartbeat_interval{10000};  ///< of a stream that has nothing to say
  std::int32_t actor_threads = 2;                       ///< of the engine's own actor system
  RestartPolicy restart{};                              ///< of a failed backend
  /// Where what was learned (lengths of answers) outlives the process. Empty: nowhere.
  std::filesystem::path state_dir{};
};

/// What an engine takes; sizes in bytes.
struct Plan {
  std::size_t limit_bytes = 0;         ///< what it may take
  std::size_t weights_bytes = 0;       ///< as they are computed with
  std::size_t scratch_bytes = 0;       ///< work buffers of the largest step
  std::size_t kv_pool_bytes = 0;       ///< keys and values of all sequences
  std::size_t kv_bytes_per_token = 0;  ///< in all layers
  std::int32_t context = 0;            ///< positions of one sequence
  std::int32_t sequences = 0;          ///< of that length at the same time
  std::string table{};                 ///< all of it for a person, several lines
};

/// Opens the model's files, reads its configuration and tokenizer, and plans. Allocates nothing
/// that lasts. Throws Error: the model can't be used, or does not fit.
Plan plan(const Config& config);

}  // namespace v0
}  // namespace sluice
