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
    std::vector<Group> groups;
    for (std::size_t g = 0; g < shape.num_groups(); ++g) {
      const KvGroup group = shape.group(g);
      if (group.num_blocks <= 0 || shape.block_size <= 0) {
        throw Error(ErrorCode::kInvalidArgument,
                    "The KV pool needs at least one block of at least one position.");
      }
      const auto size = static_cast<std::size_t>(shape.block_size);
      groups.push_back({group, std::vector<Slot>(static_cast<std::size_t>(group.num_blocks) * size),
                        std::vector<Slot>(static_cast<std::size_t>(group.swap_slots) * size)});
    }
    shape_ = shape;
    groups_ = std::move(groups);
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
    for (const BlockMove& move : batch.moves) make(move);
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
    for (const Group& group : groups_) {
      memory.kv_bytes += group.slots.size() * sizeof(Slot);
      memory.swap_bytes += group.swap.size() * sizeof(Slot);
    }
    return memory;
  }

  std::string description() const override { return "scripted, no model"; }

 private:
  struct Slot {
    TokenId token = -1;
    Position position = -1;  ///< -1: never written
    std::uint64_t written_in = 0;
  };
  struct Group {
    KvGroup shape;
    std::vector<Slot> slots;  ///< [num_blocks x block_size]
    std::vector<Slot> swap;   ///< [swap_slots x block_size]
  };

  void make(const BlockMove& move) {
    Group& group = groups_[static_cast<std::size_t>(move.group)];
    const bool from_swap = move.kind == BlockMove::Kind::kSwapIn;
    const bool to_swap = move.kind == BlockMove::Kind::kSwapOut;
    const auto begin = [&](std::vector<Slot>& slots, std::int32_t index) {
      return slots.begin() + std::ptrdiff_t{index} * shape_.block_size;
    };
    std::copy_n(begin(from_swap ? group.swap : group.slots, move.from), shape_.block_size,
                begin(to_swap ? group.swap : group.slots, move.to));
  }

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
    if (slice.more_blocks.size() + 1 != groups_.size()) return "a group has no block table";
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (std::string error = check_table(slice, g, end); !error.empty()) return error;
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

  std::string check_table(const StepSlice& slice, std::size_t g, std::size_t end) const {
    const std::vector<BlockId>& table = slice.table(g);
    const auto size = static_cast<std::size_t>(shape_.block_size);
    if (table.size() * size < end) {
      return "the block table covers " + std::to_string(table.size()) + " blocks of " +
             std::to_string(shape_.block_size) + ", too few for position " +
             std::to_string(end - 1);
    }
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (table[i] >= 0 && table[i] < groups_[g].shape.num_blocks) continue;
      bool is_seen = table[i] != kNoBlock;
      for (std::size_t j = 0; j < size; ++j) is_seen = is_seen || sees(slice, g, i * size + j, end);
      if (is_seen) return "block " + std::to_string(table[i]) + " is not in the pool";
    }
    return {};
  }

  /// Does some token of the slice see the position, or is written there?
  bool sees(const StepSlice& slice, std::size_t g, std::size_t position, std::size_t end) const {
    const auto other = static_cast<Position>(position);
    return position < end && (other >= slice.first_position ||
                              groups_[g].shape.visibility.sees(slice.first_position, other));
  }

  Slot& slot(const StepSlice& slice, std::size_t g, std::size_t position) {
    const auto size = static_cast<std::size_t>(shape_.block_size);
    const auto block = static_cast<std::size_t>(slice.table(g)[position / size]);
    return groups_[g].slots[block * size + position % size];
  }

  std::string store(const StepSlice& slice) {
    const auto first = static_cast<std::size_t>(slice.first_position);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::size_t i = 0; i < slice.tokens.size(); ++i) {
        Slot& target = slot(slice, g, first + i);
        if (target.written_in == steps_) {
          return "position " + std::to_string(first + i) + " was written twice in one step";
        }
        target = {slice.tokens[i], static_cast<Position>(first + i), steps_};
      }
    }
    return {};
  }

  /// The tokens of the positions that the slice sees in a group.
  std::vector<TokenId> read(const StepSlice& slice, std::size_t g, std::string& error) {
    const std::size_t end = static_cast<std::size_t>(slice.first_position) + slice.tokens.size();
    std::vector<TokenId> tokens;
    tokens.reserve(end);
    for (std::size_t position = 0; position < end; ++position) {
      if (!sees(slice, g, position, end)) continue;
      const Slot& source = slot(slice, g, position);
      if (source.position != static_cast<Position>(position)) {
        error = "position " + std::to_string(position) + " is read from a slot that " +
                (source.position < 0 ? std::string("was never written")
                                     : "holds position " + std::to_string(source.position));
        return {};
      }
      tokens.push_back(source.token);
    }
    return tokens;
  }

  /// What the script is shown: everything, where a group sees it, after every group has been
  /// compared with that; else what the last token sees in the first group.
  std::vector<TokenId> read_all(const StepSlice& slice, std::string& error) {
    const auto has_all = [](const Group& g) { return g.shape.visibility.window <= 0; };
    const auto whole = std::ranges::find_if(groups_, has_all);
    const Position last = slice.first_position + static_cast<Position>(slice.tokens.size()) - 1;
    std::vector<TokenId> all;
    if (whole != groups_.end()) {
      all = read(slice, static_cast<std::size_t>(whole - groups_.begin()), error);
    }
    for (std::size_t g = 0; g < groups_.size() && error.empty(); ++g) {
      const std::vector<TokenId> seen = read(slice, g, error);
      std::size_t next = 0;
      for (Position p = 0; p <= last && error.empty(); ++p) {
        if (!sees(slice, g, static_cast<std::size_t>(p), static_cast<std::size_t>(last) + 1)) {
          continue;
        }
        const TokenId token = seen[next++];
        if (whole == groups_.end()) {
          if (g == 0 && groups_[g].shape.visibility.sees(last, p)) all.push_back(token);
        } else if (token != all[static_cast<std::size_t>(p)]) {
          error = "the groups hold different tokens at position " + std::to_string(p);
        }
      }
    }
    return all;
  }

  void draw(const StepSlice& slice, SliceResult& result) {
    const std::vector<TokenId> tokens = read_all(slice, result.error);
    if (!result.error.empty()) return;
    if (!slice.sample) return;
    if (slice.sampling->needs_history() && slice.history.size() == tokens.size() &&
        slice.history != tokens) {
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
  std::vector<Group> groups_;
  std::uint64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Backend> make_scripted_backend(ScriptedBackendOptions options) {
  return std::make_unique<ScriptedBackend>(std::move(options));
}

}  // namespace sluice
