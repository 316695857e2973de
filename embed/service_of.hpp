// The line between the two shared libraries: what the web layer gets of an engine. Visible, because
// it leads from one to the other, and not in the public headers.
#pragma once

#include "actors/stream_service.hpp"
#include "sluice/engine.hpp"

namespace sluice {
namespace SLUICE_PUBLIC v0 {

/// Lives as long as the engine.
StreamService& service_of(Engine& engine);

}  // namespace v0
}  // namespace sluice
