#include "web/openai/chat_fields.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

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
  constexpr std::array<std::string_view, 3> kRoles{"system", "user", "assistant"};
  for (const std::string_view role : kRoles) {
    if (message.role == role) return;
  }
  fields.fail(fmt::format("`{}.role` must be \"system\", \"user\" or \"assistant\".", name));
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
  check_role(fields, name, message);
  fields.finish();
  if (fields.failed()) return outer.fail(fields.error());
  messages.push_back(std::move(message));
}

}  // namespace

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

}  // namespace sluice::web::openai
