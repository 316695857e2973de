#include "web/protocol.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "web/json_reader.hpp"

namespace sluice::web {
namespace {

using simdjson::dom::element;

constexpr std::size_t kMaxDepth = 16;  // the deepest valid frame has 4 levels
constexpr std::size_t kMaxIdBytes = 64;
constexpr std::size_t kMaxStopStrings = 64;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr std::size_t kMaxStopTokens = 256;
constexpr std::size_t kMaxSaltBytes = 256;
constexpr std::size_t kAnyLength = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kDayMs = 24LL * 60 * 60 * 1000;

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

// -- stop rules -------------------------------------------------------------------------------

void read_stop_choice(ObjectReader& fields, StopString& stop) {
  std::string boundary = "anywhere";
  std::string scope = "content";
  fields.text("boundary", 0, kAnyLength, boundary);
  fields.text("scope", 0, kAnyLength, scope);
  if (boundary == "anywhere") {
    stop.boundary = StopBoundary::kAnywhere;
  } else if (boundary == "line_start") {
    stop.boundary = StopBoundary::kLineStart;
  } else if (boundary == "after_space") {
    stop.boundary = StopBoundary::kAfterSpace;
  } else if (const auto found = fields.find("boundary")) {
    fields.mismatch("boundary", R"("anywhere", "line_start" or "after_space")", *found);
  }
  if (scope == "content") {
    stop.scope = StopScope::kContent;
  } else if (scope == "reasoning") {
    stop.scope = StopScope::kReasoning;
  } else if (scope == "both") {
    stop.scope = StopScope::kBoth;
  } else if (const auto found = fields.find("scope")) {
    fields.mismatch("scope", R"("content", "reasoning" or "both")", *found);
  }
  fields.boolean("include", stop.include);
}

/// A stop string is a plain string or an object.
std::optional<StopString> read_stop(ObjectReader& outer, element value, const std::string& name) {
  StopString stop;
  std::string_view text;
  simdjson::dom::object object;
  if (value.get(text) == simdjson::SUCCESS) {
    stop.text = std::string(text);
    if (text.empty() || text.size() > kMaxStopBytes) {
      outer.fail(
          fmt::format("`{}` must have 1 to {} bytes, not {}.", name, kMaxStopBytes, text.size()));
    }
  } else if (value.get(object) == simdjson::SUCCESS) {
    ObjectReader fields(object, name + ".");
    fields.text("text", 1, kMaxStopBytes, stop.text);
    if (!fields.find("text")) fields.fail(fmt::format("`{}.text` is missing.", name));
    read_stop_choice(fields, stop);
    fields.finish();
    if (fields.failed()) outer.fail(fields.error());
  } else {
    outer.mismatch(name, "a string or an object with `text`", value);
  }
  if (outer.failed()) return std::nullopt;
  return stop;
}

void read_stops(ObjectReader& fields, StopOptions& options) {
  const auto value = fields.find("stop");
  if (!value) return;
  simdjson::dom::array array;
  if (value->get(array) != simdjson::SUCCESS) {
    if (!value->is_string()) {
      fields.mismatch("stop", "a string or an array of stop strings", *value);
    } else if (auto stop = read_stop(fields, *value, "stop")) {
      options.stop_strings.push_back(std::move(*stop));
    }
    return;
  }
  if (array.size() > kMaxStopStrings) {
    fields.fail(
        fmt::format("`stop` may hold at most {} strings, not {}.", kMaxStopStrings, array.size()));
    return;
  }
  for (const element item : array) {
    const std::string name = fmt::format("stop[{}]", options.stop_strings.size());
    auto stop = read_stop(fields, item, name);
    if (!stop) return;
    options.stop_strings.push_back(std::move(*stop));
  }
}

void read_stop_tokens(ObjectReader& fields, StopOptions& options) {
  const auto value = fields.find("stop_token_ids");
  if (!value) return;
  simdjson::dom::array array;
  if (value->get(array) != simdjson::SUCCESS) {
    fields.mismatch("stop_token_ids", "an array of token ids", *value);
    return;
  }
  if (array.size() > kMaxStopTokens) {
    fields.fail(fmt::format("`stop_token_ids` may hold at most {} ids, not {}.", kMaxStopTokens,
                            array.size()));
    return;
  }
  for (const element item : array) {
    std::int64_t id = -1;
    if (item.get(id) != simdjson::SUCCESS || id < 0 || id > kMaxInt) {
      fields.mismatch(fmt::format("stop_token_ids[{}]", options.stop_token_ids.size()),
                      fmt::format("a whole number from 0 to {}", kMaxInt), item);
      return;
    }
    options.stop_token_ids.push_back(static_cast<TokenId>(id));
  }
}

void read_stop_options(ObjectReader& fields, StopOptions& options) {
  Position max_tokens = 0;
  fields.integer("max_tokens", 1, kMaxInt, max_tokens);
  if (max_tokens > 0) options.max_new_tokens = max_tokens;
  fields.integer("min_tokens", 0, kMaxInt, options.min_new_tokens);
  fields.boolean("ignore_eos", options.ignore_end_tokens);
  read_stops(fields, options);
  read_stop_tokens(fields, options);
  fields.number("min_confidence", 0, 1, options.min_confidence);
  fields.integer("patience", 0, kMaxInt, options.patience);
  fields.integer("repetition_ngram", 0, 1024, options.repetition_ngram);
  fields.integer("repetition_times", 0, 1024, options.repetition_times);
  std::int64_t time_limit = 0;
  fields.integer("time_limit_ms", 0, kDayMs, time_limit);
  options.time_limit = std::chrono::milliseconds(time_limit);
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

ParsedFrame read_generate(ObjectReader& fields, std::string id, const SamplingParams& defaults) {
  GenerateMessage message;
  message.request.sampling = defaults;
  read_input(fields, message.request);
  read_sampling(fields, message.request.sampling);
  read_seed(fields, message.request.seed);
  read_stop_options(fields, message.request.stop);
  fields.text("salt", 0, kMaxSaltBytes, message.request.salt);
  fields.finish();
  if (fields.failed()) return invalid(fields.error(), std::move(id));
  message.id = std::move(id);
  return message;
}

ParsedFrame read_steer(ObjectReader& fields, std::string id, SteerMessage::Action action) {
  fields.finish();
  if (fields.failed()) return invalid(fields.error());
  return SteerMessage{action, std::move(id)};
}

ParsedFrame read_frame(simdjson::dom::object object, const SamplingParams& defaults) {
  ObjectReader fields(object, "");
  const auto type_value = fields.find("type");
  std::string type;
  fields.text("type", 0, kAnyLength, type);
  if (fields.failed()) return invalid(fields.error());
  if (!type_value) {
    return invalid(
        "`type` is missing; it must be \"generate\", \"cancel\", \"pause\" or "
        "\"resume\".");
  }
  const bool is_generate = type == "generate";
  if (!is_generate && type != "cancel" && type != "pause" && type != "resume") {
    return ProtocolError{"unknown_type",
                         fmt::format("`type` must be \"generate\", \"cancel\", \"pause\" or "
                                     "\"resume\", not {}.",
                                     describe(*type_value)),
                         {}};
  }

  std::string id;
  fields.text("id", 1, kMaxIdBytes, id);
  if (fields.failed()) return invalid(fields.error());
  if (id.empty()) return invalid("`id` is missing; give the stream a name of 1 to 64 bytes.");

  if (is_generate) return read_generate(fields, std::move(id), defaults);
  const auto action = type == "cancel"  ? SteerMessage::Action::kCancel
                      : type == "pause" ? SteerMessage::Action::kPause
                                        : SteerMessage::Action::kResume;
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

ParsedFrame parse_frame(std::string_view json, const SamplingParams& defaults) {
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
