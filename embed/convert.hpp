// Public types to the engine's own and back. They are kept apart so that the engine may change
// without changing what programs were compiled against.
#pragma once

#include <memory>
#include <utility>

#include "actors/engine.hpp"
#include "engine/base/error.hpp"
#include "sluice/config.hpp"
#include "sluice/engine.hpp"
#include "sluice/error.hpp"
#include "sluice/events.hpp"
#include "sluice/request.hpp"
#include "sluice/stop_rule.hpp"

namespace sluice::embed {

namespace api = ::sluice::v0;

/// Throws Error(kInvalidArgument) for a KV type that is none.
EngineConfig to_internal(const api::Config& config);
GenerateRequest to_internal(api::Request request);
StreamChanges to_internal(api::Changes changes);
/// Empty for an empty one.
std::shared_ptr<StopJudge> to_internal(std::shared_ptr<api::StopJudge> judge);

api::Event to_public(const Event& event);
api::Info to_public(const ServiceInfo& info);
api::Stats to_public(const EngineStats& stats);
api::Error to_public(const Error& error);

/// Calls `function`; the engine's Error leaves as the public one.
template <class Function>
decltype(auto) with_public_errors(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const Error& error) {
    throw to_public(error);
  }
}

}  // namespace sluice::embed
