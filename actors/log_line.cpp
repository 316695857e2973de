#include "actors/log_line.hpp"

#include <spdlog/spdlog.h>

namespace sluice {
namespace {

thread_local const LogFields* current_fields = nullptr;

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      break;
  }
  return spdlog::level::warn;
}

}  // namespace

LogFields& LogFields::add(std::string_view name, std::string_view text) {
  list_.push_back({std::string(name), std::string(text)});
  return *this;
}

LogFields& LogFields::add(std::string_view name, std::int64_t number) {
  list_.push_back({std::string(name), number});
  return *this;
}

LogFields& LogFields::add(std::string_view name, double number) {
  list_.push_back({std::string(name), number});
  return *this;
}

bool log_wanted(LogLevel level) {
  const auto logger = spdlog::get("sluice");
  return logger && logger->should_log(to_spdlog(level));
}

void log_line(LogLevel level, std::string_view message, const LogFields& fields) {
  const auto logger = spdlog::get("sluice");
  if (!logger) return;
  // The formatter runs within the call: loggers of this program are synchronous.
  current_fields = &fields;
  logger->log(to_spdlog(level), "{}", message);
  current_fields = nullptr;
}

const LogFields* current_log_fields() {
  return current_fields;
}

}  // namespace sluice
