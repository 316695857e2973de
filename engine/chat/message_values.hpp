// Conversations as the values that a template works with.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/chat/chat_template.hpp"
#include "engine/chat/jinja/value.hpp"

namespace sluice {

/// A list of dicts with the members of each message that are not empty; role and content always.
/// Everything but the role is untrusted text. Arguments of tool calls that are JSON in a string
/// become what they say, as templates expect. Throws Error(kInvalidArgument) for tool calls that
/// are no JSON array.
jinja::Value message_values(std::span<const ChatMessage> messages);

/// The array in `json`, its strings untrusted. Throws Error(kInvalidArgument) that says what was
/// wrong with `what`.
jinja::Value json_array(const std::string& json, std::string_view what);

/// Sets the members of a JSON object as variables, without replacing what is there. Throws
/// Error(kInvalidArgument) when it is no object, or names a variable that is set already.
void add_template_options(jinja::Dict& context, const std::string& json);

}  // namespace sluice
