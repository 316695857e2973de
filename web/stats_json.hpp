// Writes what the machine is doing, for those who watch (docs/protocol.md).
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "actors/stream_service.hpp"

namespace sluice::web {

/// The fields of a `stats` frame that are the same for every connection, without braces. Steps
/// up to and including `seen_step` are left out. Bounded, whatever the size of the pool.
std::string stats_fields(const EngineStats& stats, const EngineView& view, std::uint64_t seen_step);

/// The view without what would tell of other users: of sequences that are not among `own`, blocks
/// and batches are shown as somebody's (0), and the rest is left out.
EngineView without_others(EngineView view, const std::set<SequenceId>& own);

}  // namespace sluice::web
