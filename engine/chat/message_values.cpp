#include "engine/chat/message_values.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/chat/jinja/failure.hpp"
#include "engine/chat/jinja/json_value.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

using jinja::Dict;
using jinja::Value;

[[noreturn]] void invalid(std::string_view what, std::string_view wanted) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{} must be {}.", what, wanted));
}

Value parse(const std::string& json, std::string_view what, std::string_view wanted) {
  try {
    return jinja::value_from_json(json, true);
  } catch (const jinja::Failure&) {
    invalid(what, wanted);
  }
}

/// The chat API sends arguments as a string of JSON; templates print them as a mapping.
void open_arguments(const Value& call) {
  if (!call.is_dict()) return;
  const Value* function = call.as_dict().find("function");
  const Value& holder = function != nullptr && function->is_dict() ? *function : call;
  const Value* arguments = holder.as_dict().find("arguments");
  if (arguments == nullptr || !arguments->is_text()) return;
  try {
    Value opened = jinja::value_from_json(arguments->bytes(), true);
    if (opened.is_dict()) holder.as_dict().set(Value::text("arguments"), std::move(opened));
  } catch (const jinja::Failure&) {
    return;  // not JSON: the template gets what the model wrote
  }
}

Value tool_calls(const std::string& json, std::size_t number) {
  Value calls = json_array(json, fmt::format("The tool calls of message {}", number));
  for (const Value& call : calls.items()) open_arguments(call);
  return calls;
}

Value message_value(const ChatMessage& message, std::size_t number) {
  Dict entry;
  const auto add = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) entry.set(Value::text(name), Value::untrusted_text(text));
  };
  entry.set(Value::text("role"), Value::text(message.role));
  entry.set(Value::text("content"), Value::untrusted_text(message.content));
  add("reasoning_content", message.reasoning_content);
  add("tool_call_id", message.tool_call_id);
  add("name", message.name);
  if (!message.tool_calls.empty()) {
    entry.set(Value::text("tool_calls"), tool_calls(message.tool_calls, number));
  }
  return Value::dict(std::move(entry));
}

}  // namespace

Value message_values(std::span<const ChatMessage> messages) {
  std::vector<Value> list;
  list.reserve(messages.size());
  for (const ChatMessage& message : messages) {
    list.push_back(message_value(message, list.size() + 1));
  }
  return Value::list(std::move(list));
}

Value json_array(const std::string& json, std::string_view what) {
  constexpr std::string_view kWanted = "a JSON array";
  Value value = parse(json, what, kWanted);
  if (!value.is_sequence()) invalid(what, kWanted);
  return value;
}

void add_template_options(Dict& context, const std::string& json) {
  if (json.empty()) return;
  constexpr std::string_view kWhat = "The template options";
  constexpr std::string_view kWanted = "a JSON object";
  const Value options = parse(json, kWhat, kWanted);
  if (!options.is_dict()) invalid(kWhat, kWanted);
  for (const auto& [name, value] : options.as_dict().entries()) {
    if (context.find(name.bytes()) != nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("The template option {} is set by the request itself; leave it out.",
                              quote_text(name.bytes())));
    }
    context.set(name, value);
  }
}

}  // namespace sluice
