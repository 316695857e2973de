// The numbers of engine and server in Prometheus' text format 0.0.4.
#pragma once

#include <string>

#include "actors/stream_service.hpp"
#include "web/counters.hpp"
#include "web/stream_hub.hpp"

namespace sluice::web {

std::string metrics_text(const EngineStats& stats, const HubStats& streams,
                         const Counters& counters);

}  // namespace sluice::web
