// The engine as an actor, of anything that an engine can be made of.
#pragma once

#include <functional>

#include "actors/engine.hpp"
#include "sluice/caf.hpp"

namespace sluice::embed {

/// `make` is called on the actor's own thread; what it throws is the reason of the actor's end.
v0::EngineRef spawn_engine(caf::actor_system& system, std::function<PreparedEngine()> make);

}  // namespace sluice::embed
