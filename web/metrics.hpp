// The numbers of engine, server and process in Prometheus' text format. docs/operations.md lists
// every name; a test compares.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/stream_service.hpp"
#include "web/counters.hpp"
#include "web/process_usage.hpp"
#include "web/stream_hub.hpp"

namespace sluice::web {

/// One look at everything.
struct MetricSources {
  const ServiceInfo& info;
  const EngineStats& engine;
  const HubStats& streams;
  const Counters& server;
  std::vector<DeviceUsage> devices{};
  std::optional<ProcessUsage> process{};
};

std::string metrics_text(const MetricSources& sources);

}  // namespace sluice::web
