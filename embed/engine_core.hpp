// What a public Engine holds.
#pragma once

#include <memory>
#include <utility>

#include "embed/convert.hpp"

namespace caf {
class actor_system;
}  // namespace caf

namespace sluice::embed {

class EngineCore {
 public:
  explicit EngineCore(PreparedEngine prepared) : engine_(std::move(prepared)) {}
  /// In an actor system of the caller, which must outlive it.
  EngineCore(PreparedEngine prepared, caf::actor_system& host)
      : engine_(std::move(prepared), host) {}

  sluice::Engine& engine() { return engine_; }
  const sluice::Engine& engine() const { return engine_; }

  /// The handler gets public events.
  StreamHandle generate(api::Request request, api::EventHandler on_event, Delivery delivery);

 private:
  sluice::Engine engine_;
};

/// Opens, plans and warms up as the settings say. Throws the engine's Error.
PreparedEngine prepare(const api::Config& config);

/// The library's own way into public objects; tests use it for engines without a model.
class Access {
 public:
  static api::Engine make_engine(PreparedEngine prepared) {
    return api::Engine(std::make_shared<EngineCore>(std::move(prepared)));
  }
  static EngineCore& core(api::Engine& engine) { return *engine.core_; }
  static api::Stream make_stream(const StreamHandle& handle);
};

}  // namespace sluice::embed
