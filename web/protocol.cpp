#include "web/protocol.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/stream/stop_policy.hpp"
#include "web/json_reader.hpp"
#include "web/stop_fields.hpp"

namespace sluice::web {
namespace {

using simdjson::dom::element;

constexpr std::size_t kMaxDepth = 16;  // the deepest valid frame has 4 levels
constexpr std::size_t kMaxIdBytes = 64;
constexpr std::size_t kMaxSaltBytes = 256;
constexpr std::size_t kMaxKeyBytes = 64;  // ours have 22
constexpr std::size_t kAnyLength = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

// -- messages and prompt ----------------------------------------------------------------------

std::optional<ChatMessage> read_message(ObjectReader& outer, element value, std::size_t index) {
  const std::string name = fmt::format("messages[{}]", index);
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    outer.mismatch(name, "an object with `role` and `content`", value);
    return std::nullopt;
  }
  ObjectReader fields(object, name + ".");
  ChatMessage message;
  fields.text("role", 0, kAnyLength, message.role);
  fields.text("content", 0, kAnyLength, message.content);
  const auto role = fields.find("role");
  if (!role) fields.fail(fmt::format("`{}.role` is missing.", name));
  if (!fields.find("content")) fields.fail(fmt::format("`{}.content` is missing.", name));
  if (role && message.role != "system" && message.role != "user" && message.role != "assistant") {
    fields.mismatch("role", R"("system", "user" or "assistant")", *role);
  }
  fields.finish();
  if (fields.failed()) {
    outer.fail(fields.error());
    return std::nullopt;
  }
  return message;
}

void read_messages(ObjectReader& fields, element value, GenerateRequest& request) {
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) {
    fields.mismatch("messages", "an array of objects with `role` and `content`", value);
    return;
  }
  std::vector<ChatMessage> messages;
  for (const element item : array) {
    auto message = read_message(fields, item, messages.size());
    if (!message) return;
    messages.push_back(std::move(*message));
  }
  if (messages.empty()) fields.fail("`messages` must hold at least one message.");
  request.input = std::move(messages);
}

void read_input(ObjectReader& fields, GenerateRequest& request) {
  const auto messages = fields.find("messages");
  const auto prompt = fields.find("prompt");
  const auto parse_special = fields.find("parse_special");
  if (messages && prompt) {
    fields.fail("`messages` and `prompt` exclude each other; send one of them.");
  } else if (messages && parse_special) {
    fields.fail(
        "`parse_special` goes with `prompt` only; in `messages` nobody can type a "
        "special token.");
  } else if (messages) {
    read_messages(fields, *messages, request);
  } else if (prompt) {
    std::string text;
    fields.text("prompt", 0, kAnyLength, text);
    request.input = std::move(text);
  } else {
    fields.fail("`messages` or `prompt` is missing: there is nothing to continue.");
  }
  fields.boolean("parse_special", request.parse_special);
}

// -- sampling ---------------------------------------------------------------------------------

/// A number, or a string of digits for clients that can't hold 64 bits exactly.
void read_seed(ObjectReader& fields, std::optional<std::uint64_t>& seed) {
  const auto value = fields.find("seed");
  if (!value) return;
  std::uint64_t number = 0;
  std::string_view digits;
  if (value->get(number) == simdjson::SUCCESS) {
    seed = number;
    return;
  }
  if (value->get(digits) == simdjson::SUCCESS) {
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (!digits.empty() && result.ec == std::errc() &&
        result.ptr == digits.data() + digits.size()) {
      seed = number;
      return;
    }
  }
  fields.mismatch("seed", "a whole number from 0 to 18446744073709551615", *value);
}

void read_sampling(ObjectReader& fields, SamplingParams& sampling) {
  fields.number("temperature", 0, 10, sampling.temperature);
  fields.integer("top_k", 0, kMaxInt, sampling.top_k);
  fields.number("top_p", 0, 1, sampling.top_p);
  if (sampling.top_p <= 0.0F) fields.fail("`top_p` must be above 0 and at most 1, not 0.");
  fields.number("min_p", 0, 1, sampling.min_p);
  fields.number("repetition_penalty", 0.01, 10, sampling.repetition_penalty);
  fields.number("presence_penalty", -2, 2, sampling.presence_penalty);
  fields.number("frequency_penalty", -2, 2, sampling.frequency_penalty);
  fields.integer("top_logprobs", 0, 20, sampling.num_top_logprobs);
}

// -- frames -----------------------------------------------------------------------------------

ParsedFrame invalid(std::string message, std::string id = {}) {
  return ProtocolError{"invalid_request", std::move(message), std::move(id)};
}

ParsedFrame read_generate(ObjectReader& fields, std::string id, const FrameDefaults& defaults) {
  GenerateMessage message;
  message.request.sampling = defaults.sampling;
  read_input(fields, message.request);
  read_sampling(fields, message.request.sampling);
  read_seed(fields, message.request.seed);
  read_stop_options(fields, message.request.stop);
  fields.text("salt", 0, kMaxSaltBytes, message.request.salt);
  std::int64_t keep = 0;
  fields.integer("keep_ms", 0, defaults.max_keep.count(), keep);
  message.keep = std::chrono::milliseconds(keep);
  fields.finish();
  if (fields.failed()) return invalid(fields.error(), std::move(id));
  message.id = std::move(id);
  return message;
}

ParsedFrame read_resume(ObjectReader& fields, std::string id) {
  ResumeMessage message;
  std::int64_t after = 0;
  fields.text("stream", 1, kMaxKeyBytes, message.stream);
  fields.integer("after", 0, std::numeric_limits<std::int64_t>::max(), after);
  fields.finish();
  if (!fields.failed() && message.stream.empty()) {
    fields.fail("`stream` is missing; it must be the key that `accepted` brought.");
  }
  if (fields.failed()) return invalid(fields.error(), std::move(id));
  message.after = static_cast<std::uint64_t>(after);
  message.id = std::move(id);
  return message;
}

ParsedFrame read_change(ObjectReader& fields, std::string id) {
  ChangeMessage message;
  StreamChanges& changes = message.changes;
  changes.max_new_tokens = read_max_tokens(fields);
  changes.stop_strings = read_stop_strings(fields);
  changes.stop_patterns = read_stop_patterns(fields);
  float temperature = 0.0F;
  fields.number("temperature", 0, 10, temperature);
  if (fields.find("temperature")) changes.temperature = temperature;
  fields.finish();
  if (fields.failed()) return invalid(fields.error());
  if (!changes.max_new_tokens && !changes.stop_strings && !changes.stop_patterns &&
      !changes.temperature) {
    return invalid(
        "There is nothing to change; send `max_tokens`, `stop`, `stop_regex` or `temperature`.");
  }
  try {
    check_stream_changes(changes);
  } catch (const Error& error) {
    return invalid(error.what());
  }
  message.id = std::move(id);
  return message;
}

ParsedFrame read_steer(ObjectReader& fields, std::string id, SteerMessage::Action action) {
  fields.finish();
  if (fields.failed()) return invalid(fields.error());
  return SteerMessage{action, std::move(id)};
}

ParsedFrame read_stats(ObjectReader& fields) {
  StatsMessage message;
  fields.boolean("on", message.on);
  fields.boolean("held", message.held);
  fields.finish();
  if (fields.failed()) return invalid(fields.error());
  return message;
}

constexpr std::array<std::string_view, 7> kTypes{"generate", "resume", "cancel", "pause",
                                                 "unpause",  "change", "stats"};
constexpr std::string_view kTypesInWords =
    R"("generate", "resume", "cancel", "pause", "unpause", "change" or "stats")";

ParsedFrame read_frame(simdjson::dom::object object, const FrameDefaults& defaults) {
  ObjectReader fields(object, "");
  const auto type_value = fields.find("type");
  std::string type;
  fields.text("type", 0, kAnyLength, type);
  if (fields.failed()) return invalid(fields.error());
  if (!type_value) return invalid(fmt::format("`type` is missing; it must be {}.", kTypesInWords));
  if (std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
    return ProtocolError{
        "unknown_type",
        fmt::format("`type` must be {}, not {}.", kTypesInWords, describe(*type_value)),
        {}};
  }

  if (type == "stats") return read_stats(fields);
  std::string id;
  fields.text("id", 1, kMaxIdBytes, id);
  if (fields.failed()) return invalid(fields.error());
  if (id.empty()) return invalid("`id` is missing; give the stream a name of 1 to 64 bytes.");

  if (type == "generate") return read_generate(fields, std::move(id), defaults);
  if (type == "resume") return read_resume(fields, std::move(id));
  if (type == "change") return read_change(fields, std::move(id));
  const auto action = type == "cancel"  ? SteerMessage::Action::kCancel
                      : type == "pause" ? SteerMessage::Action::kPause
                                        : SteerMessage::Action::kUnpause;
  return read_steer(fields, std::move(id), action);
}

std::string json_fault(simdjson::error_code error) {
  switch (error) {
    case simdjson::EMPTY:
      return "The frame is empty; it must be one JSON object.";
    case simdjson::DEPTH_ERROR:
      return fmt::format("The frame nests deeper than {} levels.", kMaxDepth);
    case simdjson::UTF8_ERROR:
      return "The frame is not valid UTF-8.";
    case simdjson::NUMBER_ERROR:
      return "The frame has a malformed number, or one beyond 64 bits.";
    default:
      return "The frame is not valid JSON; it must be one JSON object.";
  }
}

}  // namespace

ParsedFrame parse_frame(std::string_view json, const FrameDefaults& defaults) {
  simdjson::dom::parser parser;
  element root;
  simdjson::error_code error = parser.allocate(json.size() + 1, kMaxDepth);
  if (error == simdjson::SUCCESS) {
    error = parser.parse(json.data(), json.size(), /*realloc_if_needed=*/true).get(root);
  }
  if (error != simdjson::SUCCESS) return ProtocolError{"invalid_json", json_fault(error), {}};

  simdjson::dom::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    return ProtocolError{"invalid_json",
                         fmt::format("The frame must be one JSON object, not {}.", describe(root)),
                         {}};
  }
  return read_frame(object, defaults);
}

}  // namespace sluice::web
