// The HTTP endpoints: health, readiness, metrics, plan and models.
#pragma once

#include <functional>

#include "actors/stream_service.hpp"
#include "web/counters.hpp"
#include "web/router.hpp"
#include "web/stream_hub.hpp"

namespace sluice::web {

/// What the endpoints look at; must outlive the router.
struct EndpointSources {
  const StreamService& service;
  const Counters& counters;
  const StreamHub& hub;
  std::function<bool()> stopping;
};

void add_endpoints(Router& router, const EndpointSources& sources);

/// Answered for any Host and Origin: probes do not know the server's names.
bool is_probe(std::string_view path);

}  // namespace sluice::web
