#include "engine/backend/scripted_backend.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

class ScriptedBackend final : public Backend {
 public:
  explicit ScriptedBackend(ScriptedBackendOptions options) : options_(std::move(options)) {}

  void allocate_pool(const KvPoolShape& shape) override {
    if (shape.num_blocks <= 0 || shape.block_size <= 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "The KV pool needs at least one block of at least one position.");
    }
    shape_ = shape;
    slots_.assign(
        static_cast<std::size_t>(shape.num_blocks) * static_cast<std::size_t>(shape.block_size),
        Slot{});
  }

  StepResult step(const StepBatch& batch) noexcept override {
    const auto start = std::chrono::steady_clock::now();
    StepResult result;
    result.number = batch.number;
    ++steps_;
    const auto pause = options_.per_step + options_.per_token * batch.num_tokens();
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    if (count_down()) {
      result.fatal = "the scripted backend was told to fail here";
      return result;
    }
    // As in a real layer, K and V of all slices are stored before anything is read.
    for (const StepSlice& slice : batch.slices) {
      result.slices.push_back({slice.sequence, std::nullopt, check(slice)});
      if (result.slices.back().error.empty()) result.slices.back().error = store(slice);
    }
    for (std::size_t i = 0; i < batch.slices.size(); ++i) {
      if (result.slices[i].error.empty()) draw(batch.slices[i], result.slices[i]);
    }
    result.duration = std::chrono::steady_clock::now() - start;
    return result;
  }

  BackendMemory memory() const override {
    BackendMemory memory;
    memory.kv_bytes = slots_.size() * sizeof(Slot);
    return memory;
  }

  std::string description() const override { return "scripted, no model"; }

 private:
  struct Slot {
    TokenId token = -1;
    Position position = -1;  ///< -1: never written
    std::uint64_t written_in = 0;
  };

  /// True when this step has to be fatal.
  bool count_down() {
    if (options_.steps_until_fatal == nullptr) return false;
    std::atomic<int>& left = *options_.steps_until_fatal;
    if (left.load() < 0) return false;
    if (left.load() > 1) {
      --left;
      return false;
    }
    left = -1;
    return true;
  }

  std::string check(const StepSlice& slice) const {
    if (slice.tokens.empty()) return "the slice has no tokens";
    if (slice.first_position < 0) return "the slice begins before position 0";
    const std::size_t end = static_cast<std::size_t>(slice.first_position) + slice.tokens.size();
    if (slice.blocks.size() * static_cast<std::size_t>(shape_.block_size) < end) {
      return "the block table covers " + std::to_string(slice.blocks.size()) + " blocks of " +
             std::to_string(shape_.block_size) + ", too few for position " +
             std::to_string(end - 1);
    }
    for (const BlockId block : slice.blocks) {
      if (block < 0 || block >= shape_.num_blocks) {
        return "block " + std::to_string(block) + " is not in the pool";
      }
    }
    if (std::ranges::any_of(slice.tokens, [](TokenId token) { return token < 0; })) {
      return "the slice has a negative token";
    }
    if (!slice.sample) return {};
    if (slice.sampling == nullptr) return "the slice asks for a token without sampling parameters";
    if (slice.sampling->needs_history() && slice.history.size() != end) {
      return "the slice's history does not end with its last token";
    }
    return {};
  }

  Slot& slot(const StepSlice& slice, std::size_t position) {
    const auto size = static_cast<std::size_t>(shape_.block_size);
    const auto block = static_cast<std::size_t>(slice.blocks[position / size]);
    return slots_[block * size + position % size];
  }

  std::string store(const StepSlice& slice) {
    const auto first = static_cast<std::size_t>(slice.first_position);
    for (std::size_t i = 0; i < slice.tokens.size(); ++i) {
      Slot& target = slot(slice, first + i);
      if (target.written_in == steps_) {
        return "position " + std::to_string(first + i) + " was written twice in one step";
      }
      target = {slice.tokens[i], static_cast<Position>(first + i), steps_};
    }
    return {};
  }

  void draw(const StepSlice& slice, SliceResult& result) {
    const std::size_t end = static_cast<std::size_t>(slice.first_position) + slice.tokens.size();
    std::vector<TokenId> tokens;
    tokens.reserve(end);
    for (std::size_t position = 0; position < end; ++position) {
      const Slot& source = slot(slice, position);
      if (source.position != static_cast<Position>(position)) {
        result.error = "position " + std::to_string(position) + " is read from a slot that " +
                       (source.position < 0 ? std::string("was never written")
                                            : "holds position " + std::to_string(source.position));
        return;
      }
      tokens.push_back(source.token);
    }
    if (!slice.sample) return;
    if (slice.sampling->needs_history() && slice.history != tokens) {
      result.error = "the slice's history is not what its block table holds";
      return;
    }
    TokenId token = -1;
    try {
      token = options_.next_token(tokens);
    } catch (const std::exception& e) {
      result.error = std::string("the script failed: ") + e.what();
      return;
    }
    if (token < 0) {
      result.error = "the script ended this sequence with a failure";
      return;
    }
    result.token = SampledToken{.id = token, .logprob = 0.0F, .top_probability = 1.0F, .top = {}};
    if (slice.sampling->num_top_logprobs > 0) result.token->top.push_back({token, 0.0F});
  }

  ScriptedBackendOptions options_;
  KvPoolShape shape_;
  std::vector<Slot> slots_;  ///< [num_blocks x block_size]
  std::uint64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Backend> make_scripted_backend(ScriptedBackendOptions options) {
  return std::make_unique<ScriptedBackend>(std::move(options));
}

}  // namespace sluice
