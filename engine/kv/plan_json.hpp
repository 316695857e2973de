// The memory plan's numbers as JSON fields, written in one place for every reader: `sluice plan
// --json` and the server's /v1/plan say the same.
#pragma once

#include "engine/base/json_writer.hpp"
#include "engine/kv/memory_plan.hpp"

namespace sluice {

/// Adds the plan's fields to the object that `json` has open; all sizes in bytes.
void write_plan_fields(JsonWriter& json, const MemoryPlan& plan);

}  // namespace sluice
