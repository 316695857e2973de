// Reads the fields of a frame that say when a stream ends (docs/protocol.md).
#pragma once

#include <optional>
#include <vector>

#include "engine/stream/request.hpp"
#include "web/json_reader.hpp"

namespace sluice::web {

// Each is empty when its field is absent, and what it holds does not count after a failure.
std::optional<Position> read_max_tokens(ObjectReader& fields);
std::optional<std::vector<StopString>> read_stop_strings(ObjectReader& fields);    ///< `stop`
std::optional<std::vector<StopPattern>> read_stop_patterns(ObjectReader& fields);  ///< `stop_regex`

/// All of them, for a new stream.
void read_stop_options(ObjectReader& fields, StopOptions& options);

}  // namespace sluice::web
