// The part of a chat request that goes to the model's template: messages, tools, options.
#pragma once

#include "engine/stream/request.hpp"
#include "web/json_reader.hpp"

namespace sluice::web::openai {

/// Reads `messages`, `tools`, `tool_choice`, `reasoning_effort` and `chat_template_kwargs`; what is
/// wrong is left in `fields`. Whether the template knows a role or an option, it says itself.
void read_chat(ObjectReader& fields, GenerateRequest& request);

}  // namespace sluice::web::openai
