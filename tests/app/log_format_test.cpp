#include "app/log_format.hpp"

#include <simdjson.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <utility>

#include "actors/log_line.hpp"

namespace {

using namespace sluice;

/// The program's logger for the time of a test, writing to a string.
class Log {
 public:
  explicit Log(std::unique_ptr<spdlog::formatter> formatter) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
    sink->set_formatter(std::move(formatter));
    spdlog::drop("sluice");
    spdlog::register_logger(std::make_shared<spdlog::logger>("sluice", sink));
  }
  ~Log() { spdlog::drop("sluice"); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

const std::string kNasty = "line one\nline two \x1b[31m \"quoted\" \\ \xff end";

}  // namespace

TEST_CASE("a log line as text has its fields behind it", "[log]") {
  const Log log(app::make_text_formatter());
  log_line(
      LogLevel::kInfo, "stream ended",
      LogFields().add("request_id", "abc-1").add("tokens", 118).add("ms", 2.5).add("said", kNasty));
  log_line(LogLevel::kWarning, kNasty);
  log_line(LogLevel::kDebug, "not at this level");
  CHECK(std::regex_match(
      log.text(),
      std::regex(
          R"(\d\d:\d\d:\d\d\.\d{3} info stream ended request_id=abc-1 tokens=118 ms=2\.5 said="line one\\x0aline two \\x1b\[31m \\"quoted\\" \\\\ )"
          "\xff end\"\n"
          R"(\d\d:\d\d:\d\d\.\d{3} warning line one\\x0aline two .*)"
          "\n")));
}

TEST_CASE("a log line as JSON is one object whatever it holds", "[log]") {
  const Log log(app::make_json_formatter());
  log_line(LogLevel::kInfo, kNasty, LogFields().add("request_id", kNasty).add("tokens", 118));
  log_line(LogLevel::kWarning, "plain");
  std::istringstream lines(log.text());
  std::string line;
  simdjson::dom::parser parser;
  REQUIRE(std::getline(lines, line));
  simdjson::dom::element first;
  REQUIRE(parser.parse(line).get(first) == simdjson::SUCCESS);
  const std::string readable = "line one\nline two \x1b[31m \"quoted\" \\ \xEF\xBF\xBD end";
  CHECK(std::string_view(first["message"]) == readable);
  CHECK(std::string_view(first["request_id"]) == readable);
  CHECK(std::string_view(first["level"]) == "info");
  CHECK(std::int64_t(first["tokens"]) == 118);
  CHECK(std::regex_match(std::string(std::string_view(first["time"])),
                         std::regex(R"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")));
  REQUIRE(std::getline(lines, line));
  simdjson::dom::element second;
  REQUIRE(parser.parse(line).get(second) == simdjson::SUCCESS);
  CHECK(second["request_id"].error() == simdjson::NO_SUCH_FIELD);
  CHECK_FALSE(std::getline(lines, line));
}

TEST_CASE("a program without a logger hears nothing", "[log]") {
  spdlog::drop("sluice");
  CHECK_FALSE(log_wanted(LogLevel::kWarning));
  log_line(LogLevel::kWarning, "nobody hears this");
  CHECK(current_log_fields() == nullptr);
}
