#include "app/json_lines.hpp"

#include <fmt/format.h>

#include <istream>
#include <limits>
#include <new>
#include <ostream>

#include "engine/base/error.hpp"
#include "engine/stream/utf8_accumulator.hpp"

namespace sluice::app {
namespace {

constexpr const char* kReplacement = "\\ufffd";

/// The code unit of "\uXXXX" at `at`, or nothing.
std::optional<unsigned> escaped_unit(std::string_view text, std::size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return std::nullopt;
  unsigned unit = 0;
  for (const char c : text.substr(at + 2, 4)) {
    unsigned digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<unsigned>(c - '0');
    } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
      digit = static_cast<unsigned>((c | 0x20) - 'a') + 10;
    } else {
      return std::nullopt;
    }
    unit = unit * 16 + digit;
  }
  return unit;
}

bool is_high(unsigned unit) {
  return unit >= 0xD800 && unit < 0xDC00;
}
bool is_low(unsigned unit) {
  return unit >= 0xDC00 && unit < 0xE000;
}

/// Replaces escaped surrogates that stand alone.
std::string pair_surrogates(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] != '\\') {
      out += line[at++];
      continue;
    }
    const auto unit = escaped_unit(line, at);
    std::size_t size = unit ? 6 : 2;
    if (unit && is_high(*unit)) {
      const auto next = escaped_unit(line, at + 6);
      if (next && is_low(*next)) {
        size = 12;
      } else {
        out += kReplacement;
        at += 6;
        continue;
      }
    } else if (unit && is_low(*unit)) {
      out += kReplacement;
      at += 6;
      continue;
    }
    out += line.substr(at, size);
    at += size;
  }
  return out;
}

[[noreturn]] void mismatch(const char* key, const char* wanted, bool absent) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("The member \"{}\" is {}; it must be {}.", key,
                          absent ? "missing" : "of another type", wanted));
}

/// getline with a limit; false at the end of the input. `too_long`: the line was skipped.
bool read_line(std::istream& in, std::string& line, bool& too_long) {
  line.clear();
  too_long = false;
  std::streambuf& buffer = *in.rdbuf();
  bool any = false;
  for (;;) {
    const int c = buffer.sbumpc();
    if (c == std::char_traits<char>::eof()) return any;
    any = true;
    if (c == '\n') return true;
    if (line.size() < kLongestLine) {
      line += static_cast<char>(c);
    } else {
      too_long = true;
    }
  }
}

std::string error_line(std::string_view message) {
  JsonWriter json;
  json.begin_object().field("error", message).end_object();
  return json.take();
}

std::string answer_one(std::string_view line, const AnswerLine& answer) {
  try {
    JsonWriter json;
    json.begin_object();
    answer(repair_json_text(line), json);
    json.end_object();
    return json.take();
  } catch (const std::bad_alloc&) {
    return error_line("There is not enough memory for this line; send less.");
  } catch (const std::exception& error) {
    return error_line(error.what());
  }
}

}  // namespace

std::string repair_json_text(std::string_view line) {
  std::string text = is_valid_utf8(line) ? std::string(line) : to_valid_utf8(line);
  const bool may_have_surrogates =
      text.find("\\ud") != std::string::npos || text.find("\\uD") != std::string::npos;
  return may_have_surrogates ? pair_surrogates(text) : text;
}

LineObject::LineObject(std::string_view line) {
  simdjson::dom::element root;
  const auto fault = parser_.parse(line.data(), line.size()).get(root);
  if (fault != simdjson::SUCCESS) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("The line is not valid JSON ({}); it must be one object.",
                            simdjson::error_message(fault)));
  }
  if (root.get(object_) != simdjson::SUCCESS) {
    throw Error(ErrorCode::kInvalidArgument, "The line is JSON, but no object.");
  }
}

std::optional<simdjson::dom::element> LineObject::find(const char* key) const {
  simdjson::dom::element value;
  if (object_.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

std::string_view LineObject::text(const char* key) const {
  const auto value = find(key);
  std::string_view text;
  if (!value || value->get(text) != simdjson::SUCCESS) mismatch(key, "a string", !value);
  return text;
}

bool LineObject::flag(const char* key, bool otherwise) const {
  const auto value = find(key);
  if (!value) return otherwise;
  bool flag = false;
  if (value->get(flag) != simdjson::SUCCESS) mismatch(key, "true or false", false);
  return flag;
}

std::vector<std::int32_t> LineObject::ids(const char* key) const {
  const auto value = find(key);
  simdjson::dom::array array;
  if (!value || value->get(array) != simdjson::SUCCESS) {
    mismatch(key, "an array of integers", !value);
  }
  std::vector<std::int32_t> ids;
  for (const simdjson::dom::element item : array) {
    std::int64_t id = 0;
    if (item.get(id) != simdjson::SUCCESS || id < std::numeric_limits<std::int32_t>::min() ||
        id > std::numeric_limits<std::int32_t>::max()) {
      mismatch(key, "an array of integers of 32 bits", false);
    }
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

int answer_lines(std::istream& in, std::ostream& out, const AnswerLine& answer) {
  std::string line;
  bool too_long = false;
  while (read_line(in, line, too_long)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    out << (too_long ? error_line("The line is longer than 256 MiB.") : answer_one(line, answer))
        << '\n'
        << std::flush;
    if (!out) return 1;
  }
  return 0;
}

}  // namespace sluice::app
