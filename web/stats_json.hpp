// Writes what the machine is doing, for those who watch (docs/protocol.md).
#pragma once

#include <cstdint>
#include <string>

#include "actors/stream_service.hpp"

namespace sluice::web {

/// The fields of a `stats` frame that are the same for every connection, without braces. Steps
/// up to and including `seen_step` are left out. Bounded, whatever the size of the pool.
std::string stats_fields(const EngineStats& stats, const EngineView& view, std::uint64_t seen_step);

}  // namespace sluice::web
