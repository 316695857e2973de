#include "web/openai/chat_fields.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "engine/base/json_writer.hpp"

namespace sluice::web::openai {
namespace {

using simdjson::dom::element;

constexpr std::size_t kAnyLength = std::numeric_limits<std::uint32_t>::max();

/// A part of a message's content; only text has a meaning here.
void read_part(ObjectReader& outer, element value, const std::string& name, std::string& text) {
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return outer.mismatch(name, "an object with `type` and `text`", value);
  }
  ObjectReader fields(object, name + ".", ObjectReader::Nulls::kAbsent);
  std::string type;
  std::string part;
  fields.text("type", 0, kAnyLength, type);
  fields.text("text", 0, kAnyLength, part);
  if (!fields.failed() && type != "text") {
    fields.fail(fmt::format("`{}.type` must be \"text\": this model reads nothing else.", name));
  }
  fields.finish();
  if (fields.failed()) return outer.fail(fields.error());
  text += part;
}

/// A string, or an array of parts.
void read_content(ObjectReader& fields, const std::string& name, std::string& text) {
  const auto value = fields.find("content");
  if (!value) return;
  std::string_view plain;
  simdjson::dom::array parts;
  if (value->get(plain) == simdjson::SUCCESS) {
    text = std::string(plain);
  } else if (value->get(parts) == simdjson::SUCCESS) {
    std::size_t index = 0;
    for (const element part : parts) {
      read_part(fields, part, fmt::format("{}.content[{}]", name, index++), text);
    }
  } else {
    fields.mismatch("content", "a string or an array of text parts", *value);
  }
}

void check_role(ObjectReader& fields, const std::string& name, ChatMessage& message) {
  if (fields.failed()) return;
  if (message.role.empty()) return fields.fail(fmt::format("`{}.role` is missing.", name));
  // The newer name of the same.
  if (message.role == "developer") message.role = "system";
  constexpr std::array<std::string_view, 4> kRoles{"system", "user", "assistant", "tool"};
  for (const std::string_view role : kRoles) {
    if (message.role == role) return;
  }
  fields.fail(
      fmt::format("`{}.role` must be \"system\", \"user\", \"assistant\" or \"tool\".", name));
}

/// An array, as JSON text.
void read_array(ObjectReader& fields, std::string_view field, std::string_view wanted,
                std::string& json) {
  const auto value = fields.find(field);
  if (!value) return;
  simdjson::dom::array array;
  if (value->get(array) != simdjson::SUCCESS) return fields.mismatch(field, wanted, *value);
  if (array.size() > 0) json = simdjson::minify(*value);
}

void read_message(ObjectReader& outer, element value, const std::string& name,
                  std::vector<ChatMessage>& messages) {
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return outer.mismatch(name, "an object with `role` and `content`", value);
  }
  ObjectReader fields(object, name + ".", ObjectReader::Nulls::kAbsent);
  ChatMessage message;
  fields.text("role", 0, kAnyLength, message.role);
  read_content(fields, name, message.content);
  fields.text("reasoning_content", 0, kAnyLength, message.reasoning_content);
  fields.text("name", 0, kAnyLength, message.name);
  fields.text("tool_call_id", 0, kAnyLength, message.tool_call_id);
  read_array(fields, "tool_calls", "an array of tool calls", message.tool_calls);
  fields.find("refusal");  // as an earlier answer of ours brought it
  check_role(fields, name, message);
  fields.finish();
  if (fields.failed()) return outer.fail(fields.error());
  messages.push_back(std::move(message));
}

void read_tools(ObjectReader& fields, ChatOptions& chat) {
  read_array(fields, "tools", "an array of tool descriptions", chat.tools);
  const auto value = fields.find("tool_choice");
  if (!value) return;
  std::string_view choice;
  const bool text = value->get(choice) == simdjson::SUCCESS;
  if (text && choice == "none") {
    chat.tools.clear();
  } else if (!text || choice != "auto") {
    fields.fail("`tool_choice` must be \"auto\" or \"none\": nobody is forced to call a tool.");
  }
}

/// Variables of the template; `reasoning_effort` is one that some know.
void read_template_options(ObjectReader& fields, ChatOptions& chat) {
  std::string effort;
  fields.text("reasoning_effort", 1, 64, effort);
  JsonWriter json;
  json.begin_object();
  if (!effort.empty()) json.field("reasoning_effort", effort);
  const auto value = fields.find("chat_template_kwargs");
  simdjson::dom::object object;
  if (value && value->get(object) != simdjson::SUCCESS) {
    return fields.mismatch("chat_template_kwargs", "an object", *value);
  }
  if (value) {
    for (const auto& [name, option] : object) {
      if (name == "reasoning_effort" && !effort.empty()) continue;
      json.key(name).raw(simdjson::minify(option));
    }
  }
  if (!effort.empty() || value) chat.template_options = json.end_object().take();
}

void read_messages(ObjectReader& fields, GenerateRequest& request) {
  const auto value = fields.find("messages");
  simdjson::dom::array array;
  if (!value) return fields.fail("`messages` is missing; send at least one.");
  if (value->get(array) != simdjson::SUCCESS) {
    return fields.mismatch("messages", "an array of objects with `role` and `content`", *value);
  }
  std::vector<ChatMessage> messages;
  for (const element item : array) {
    read_message(fields, item, fmt::format("messages[{}]", messages.size()), messages);
    if (fields.failed()) return;
  }
  if (messages.empty()) fields.fail("`messages` must hold at least one message.");
  request.input = std::move(messages);
}

}  // namespace

void read_chat(ObjectReader& fields, GenerateRequest& request) {
  read_messages(fields, request);
  read_tools(fields, request.chat);
  read_template_options(fields, request.chat);
}

}  // namespace sluice::web::openai
