#include "web/stop_fields.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace sluice::web {
namespace {

using simdjson::dom::element;

constexpr std::size_t kMaxStops = 64;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr std::size_t kMaxStopTokens = 256;
constexpr std::size_t kAnyLength = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kDayMs = 24LL * 60 * 60 * 1000;

void read_boundary(ObjectReader& fields, StopBoundary& out) {
  std::string boundary = "anywhere";
  fields.text("boundary", 0, kAnyLength, boundary);
  if (boundary == "anywhere") {
    out = StopBoundary::kAnywhere;
  } else if (boundary == "line_start") {
    out = StopBoundary::kLineStart;
  } else if (boundary == "after_space") {
    out = StopBoundary::kAfterSpace;
  } else if (const auto found = fields.find("boundary")) {
    fields.mismatch("boundary", R"("anywhere", "line_start" or "after_space")", *found);
  }
}

void read_scope(ObjectReader& fields, StopScope& out) {
  std::string scope = "content";
  fields.text("scope", 0, kAnyLength, scope);
  if (scope == "content") {
    out = StopScope::kContent;
  } else if (scope == "reasoning") {
    out = StopScope::kReasoning;
  } else if (scope == "both") {
    out = StopScope::kBoth;
  } else if (const auto found = fields.find("scope")) {
    fields.mismatch("scope", R"("content", "reasoning" or "both")", *found);
  }
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
    read_boundary(fields, stop.boundary);
    read_scope(fields, stop.scope);
    fields.boolean("include", stop.include);
    fields.finish();
    if (fields.failed()) outer.fail(fields.error());
  } else {
    outer.mismatch(name, "a string or an object with `text`", value);
  }
  if (outer.failed()) return std::nullopt;
  return stop;
}

/// A pattern is a plain string or an object. Whether it is one, the engine says.
std::optional<StopPattern> read_pattern(ObjectReader& outer, element value,
                                        const std::string& name) {
  StopPattern pattern;
  std::string_view text;
  simdjson::dom::object object;
  if (value.get(text) == simdjson::SUCCESS) {
    pattern.pattern = std::string(text);
    if (text.empty() || text.size() > kMaxStopBytes) {
      outer.fail(
          fmt::format("`{}` must have 1 to {} bytes, not {}.", name, kMaxStopBytes, text.size()));
    }
  } else if (value.get(object) == simdjson::SUCCESS) {
    ObjectReader fields(object, name + ".");
    fields.text("pattern", 1, kMaxStopBytes, pattern.pattern);
    if (!fields.find("pattern")) fields.fail(fmt::format("`{}.pattern` is missing.", name));
    read_scope(fields, pattern.scope);
    fields.boolean("include", pattern.include);
    fields.finish();
    if (fields.failed()) outer.fail(fields.error());
  } else {
    outer.mismatch(name, "a string or an object with `pattern`", value);
  }
  if (outer.failed()) return std::nullopt;
  return pattern;
}

/// One of what `read_one` reads, or an array of at most 64. Empty when the field is absent.
template <class Stop>
std::optional<std::vector<Stop>> read_list(ObjectReader& fields, const char* field,
                                           std::string_view kind,
                                           std::optional<Stop> (*read_one)(ObjectReader&, element,
                                                                           const std::string&)) {
  const auto value = fields.find(field);
  if (!value) return std::nullopt;
  std::vector<Stop> stops;
  simdjson::dom::array array;
  if (value->get(array) != simdjson::SUCCESS) {
    if (!value->is_string()) {
      fields.mismatch(field, fmt::format("a string or an array of stop {}", kind), *value);
    } else if (auto stop = read_one(fields, *value, field)) {
      stops.push_back(std::move(*stop));
    }
    return stops;
  }
  if (array.size() > kMaxStops) {
    fields.fail(
        fmt::format("`{}` may hold at most {} {}, not {}.", field, kMaxStops, kind, array.size()));
    return stops;
  }
  for (const element item : array) {
    auto stop = read_one(fields, item, fmt::format("{}[{}]", field, stops.size()));
    if (!stop) return stops;
    stops.push_back(std::move(*stop));
  }
  return stops;
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

}  // namespace

std::optional<Position> read_max_tokens(ObjectReader& fields) {
  Position max_tokens = 0;
  fields.integer("max_tokens", 1, kMaxInt, max_tokens);
  if (max_tokens == 0) return std::nullopt;
  return max_tokens;
}

std::optional<std::vector<StopString>> read_stop_strings(ObjectReader& fields) {
  return read_list<StopString>(fields, "stop", "strings", read_stop);
}

std::optional<std::vector<StopPattern>> read_stop_patterns(ObjectReader& fields) {
  return read_list<StopPattern>(fields, "stop_regex", "patterns", read_pattern);
}

void read_stop_options(ObjectReader& fields, StopOptions& options) {
  options.max_new_tokens = read_max_tokens(fields);
  fields.integer("min_tokens", 0, kMaxInt, options.min_new_tokens);
  fields.boolean("ignore_eos", options.ignore_end_tokens);
  if (auto stops = read_stop_strings(fields)) options.stop_strings = std::move(*stops);
  if (auto patterns = read_stop_patterns(fields)) options.stop_patterns = std::move(*patterns);
  read_stop_tokens(fields, options);
  fields.number("min_confidence", 0, 1, options.min_confidence);
  fields.integer("patience", 0, kMaxInt, options.patience);
  fields.integer("repetition_ngram", 0, 1024, options.repetition_ngram);
  fields.integer("repetition_times", 0, 1024, options.repetition_times);
  std::int64_t time_limit = 0;
  fields.integer("time_limit_ms", 0, kDayMs, time_limit);
  options.time_limit = std::chrono::milliseconds(time_limit);
}

}  // namespace sluice::web
