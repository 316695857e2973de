// One JSON object a line in, one a line out: how the inspection commands talk to scripts.
//
//   {"text":"Hello"}      ->  {"ids":[9707]}
//   {"txt":"Hello"}       ->  {"error":"The member \"text\" is missing; it is a string."}
//
// Every line gets its answer before the next is read, and a line that can't be answered gets an
// object with "error"; only the end of the input ends the run.
#pragma once

#include <simdjson.h>

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json_writer.hpp"
#include "engine/base/types.hpp"

namespace sluice::app {

/// The longest line that is read; a longer one is answered with an error.
inline constexpr std::size_t kLongestLine = std::size_t{256} << 20;

/// Makes any bytes acceptable to a JSON parser without changing valid JSON: parts that are not
/// UTF-8, and escaped surrogates without their other half, become U+FFFD.
std::string repair_json_text(std::string_view line);

/// The members of one line's object. Each getter throws Error(kInvalidArgument) that names the
/// member when it has another type; `text` and `ids` also when it is absent.
class LineObject {
 public:
  /// Throws Error(kInvalidArgument) when the line is not one JSON object.
  explicit LineObject(std::string_view line);

  std::string_view text(const char* key) const;
  bool flag(const char* key, bool otherwise) const;
  /// Integers of 32 bits.
  std::vector<std::int32_t> ids(const char* key) const;
  std::optional<simdjson::dom::element> find(const char* key) const;

 private:
  simdjson::dom::parser parser_;
  simdjson::dom::object object_;
};

/// Answers a line, which is repaired already: writes the members of the answer between the
/// braces, or throws.
using AnswerLine = std::function<void(std::string_view line, JsonWriter& answer)>;

/// Reads `in` to its end, skips empty lines, writes and flushes an answer per line. Returns the
/// exit code: 0, or 1 when the output can't be written.
int answer_lines(std::istream& in, std::ostream& out, const AnswerLine& answer);

}  // namespace sluice::app
