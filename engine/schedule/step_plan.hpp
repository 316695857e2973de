// Which running sequences take part in a step, and with how many tokens: the policy alone.
#pragma once

#include <span>
#include <vector>

#include "engine/schedule/scheduler.hpp"
#include "engine/schedule/sequence.hpp"

namespace sluice {

/// One sequence's part of the step to come.
struct PlannedSlice {
  SequenceId id = 0;
  std::uint64_t arrival = 0;      ///< tells a sequence from a later one of the same id
  Position num_tokens = 0;        ///< to feed, from its computed position on
  bool granted = false;           ///< the KV manager has given the blocks
  std::vector<BlockId> blocks{};  ///< when granted: the tables
  std::vector<std::vector<BlockId>> more_blocks{};  ///< likewise
};

/// Decodes first, one token each, then prefill chunks; both in order of arrival, within the
/// token budget. When decodes alone exceed the budget, those that have waited longest go first,
/// and one token is left for prefill, so that nobody starves.
/// `running` is in order of arrival.
std::vector<PlannedSlice> plan_step(std::span<Sequence* const> running,
                                    const SchedulerOptions& options);

}  // namespace sluice
