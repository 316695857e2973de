#include "app/log_format.hpp"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <ctime>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "actors/log_line.hpp"
#include "engine/base/json_writer.hpp"

namespace sluice::app {
namespace {

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

/// Nothing that ends the line or talks to the terminal.
std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (is_control(c)) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result;
}

/// In quotation marks where it could be taken for more than one word.
std::string word(const std::string& text) {
  if (!text.empty() && text.find_first_of(" \"=\\") == std::string::npos) return printable(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return printable(quoted) + "\"";
}

std::string text_of(const LogField& field) {
  return std::visit(
      [](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
          return word(value);
        } else {
          return fmt::format("{}", value);
        }
      },
      field.value);
}

/// The message and its fields, as one line.
class LineFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    std::string line = printable({message.payload.data(), message.payload.size()});
    if (const LogFields* fields = current_log_fields()) {
      for (const LogField& field : fields->list()) {
        line += fmt::format(" {}={}", field.name, text_of(field));
      }
    }
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<LineFlag>();
  }
};

/// RFC 3339 in UTC, to the millisecond.
std::string time_text(spdlog::log_clock::time_point time) {
  const auto since = time.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(since - seconds);
  const std::time_t unix_time = seconds.count();
  std::tm utc{};
  gmtime_r(&unix_time, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     rest.count());
}

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto level = spdlog::level::to_string_view(message.level);
    JsonWriter json;
    json.begin_object()
        .field("time", time_text(message.time))
        .field("level", std::string_view(level.data(), level.size()))
        .field("message", std::string_view(message.payload.data(), message.payload.size()));
    if (const LogFields* fields = current_log_fields()) {
      for (const LogField& field : fields->list()) {
        std::visit([&](const auto& value) { json.field(field.name, value); }, field.value);
      }
    }
    const std::string line = json.end_object().take() + "\n";
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

}  // namespace

std::unique_ptr<spdlog::formatter> make_text_formatter() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<LineFlag>('*').set_pattern("%H:%M:%S.%e %^%l%$ %*");
  return formatter;
}

std::unique_ptr<spdlog::formatter> make_json_formatter() {
  return std::make_unique<JsonFormatter>();
}

void log_to_stderr() {
  auto logger = spdlog::stderr_color_mt("sluice");
  logger->set_formatter(make_text_formatter());
  spdlog::set_default_logger(std::move(logger));
}

void set_log_format(std::string_view format) {
  spdlog::default_logger()->set_formatter(format == "json" ? make_json_formatter()
                                                           : make_text_formatter());
}

}  // namespace sluice::app
