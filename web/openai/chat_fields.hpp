// The part of a chat request that goes to the model's template: messages, tools, options.
#pragma once

#include "engine/stream/request.hpp"
#include "web/json_reader.hpp"

namespace sluice::web::openai {

/// Reads `messages`; what is wrong is left in `fields`.
void read_messages(ObjectReader& fields, GenerateRequest& request);

}  // namespace sluice::web::openai
