// Log lines with fields, for programs that read them.
//
//   log_line(LogLevel::kInfo, "stream ended",
//            LogFields().add("request_id", id).add("tokens", 118));
//
// They go to the logger named "sluice", if the program has registered one; the library says nothing
// on its own. How fields look is the business of that logger's formatter (app/log_format.hpp),
// which finds them by current_log_fields(). Without such a formatter the line is the message alone.
//
// What users wrote and what models answered is never logged, nor are keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sluice {

enum class LogLevel { kDebug, kInfo, kWarning };

struct LogField {
  std::string name;
  std::variant<std::string, std::int64_t, double> value;
};

class LogFields {
 public:
  LogFields& add(std::string_view name, std::string_view text);
  LogFields& add(std::string_view name, std::int64_t number);
  LogFields& add(std::string_view name, double number);
  LogFields& add(std::string_view name, const char* text) {
    return add(name, std::string_view(text));
  }
  LogFields& add(std::string_view name, int number) { return add(name, std::int64_t{number}); }
  LogFields& add(std::string_view name, std::uint64_t number) {
    return add(name, static_cast<std::int64_t>(number));
  }

  const std::vector<LogField>& list() const { return list_; }

 private:
  std::vector<LogField> list_;
};

/// Whether a line of this level would be written: for those who would have to gather the fields.
bool log_wanted(LogLevel level);

void log_line(LogLevel level, std::string_view message, const LogFields& fields = {});

/// Of the line that this thread writes at this moment; null when it has none.
const LogFields* current_log_fields();

}  // namespace sluice
