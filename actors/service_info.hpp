// What an engine says about itself, put together from its parts.
#pragma once

#include <string>

#include "actors/engine.hpp"
#include "actors/stream_intake.hpp"

namespace sluice {

/// Constant numbers and names; `backend` is the backend's own description.
ServiceInfo make_service_info(const PreparedEngine& prepared, const ServiceContext& context,
                              const std::string& backend);

/// e.g. "llama, 6 layers, 2.8 M parameters, q8_0". Leaves out what it does not know.
std::string model_summary(const PreparedEngine& prepared);

}  // namespace sluice
