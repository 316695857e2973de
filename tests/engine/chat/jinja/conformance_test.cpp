// Every template case of the reference data: published chat templates, rendered by the reference
// with many conversations, and small templates that try the engine's corners.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "engine/chat/jinja/json_value.hpp"
#include "engine/chat/jinja/template.hpp"
#include "tests/support/shared_data.hpp"

namespace {

namespace fs = std::filesystem;
using namespace sluice::jinja;

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string field(const Value& object, std::string_view name) {
  const Value* value = object.as_dict().find(name);
  return value != nullptr && value->is_text() ? value->bytes() : std::string();
}

/// The clock of the reference renderings: 2026-01-02 00:00:00, a Friday.
std::tm reference_time() {
  std::tm time{};
  time.tm_year = 126;
  time.tm_mday = 2;
  time.tm_wday = 5;
  time.tm_yday = 1;
  return time;
}

struct Outcome {
  bool failed = false;
  bool raised = false;  ///< the template itself refused
  std::string text;     ///< or the reason
};

Outcome render(const std::string& source, const std::string& name, const Value& context,
               bool relaxed) {
  try {
    RenderOptions options;
    options.relaxed = relaxed;
    options.now = reference_time();
    return {false, false, Template::parse(source, name).render(context, options).text};
  } catch (const TemplateError& error) {
    return {true, error.kind() == FailureKind::kRaised, error.reason()};
  }
}

/// Whether the outcome is what the reference gave. Messages count where the template wrote them.
bool matches(const Outcome& outcome, const Value& expected) {
  if (expected.is_text()) return !outcome.failed && outcome.text == expected.bytes();
  if (field(expected, "error_type") != "raise_exception") return outcome.failed && !outcome.raised;
  return outcome.raised && outcome.text == field(expected, "error");
}

struct Count {
  int passed = 0;
  int total = 0;
  int same_message = 0;  ///< of the errors, those with the reference's own words
  int errors = 0;
};

void check_case(const std::string& folder, const std::string& source, const Value& test,
                Count& count) {
  const Value* context = test.as_dict().find("context");
  const Value* expected = test.as_dict().find("expected");
  REQUIRE(context != nullptr);
  REQUIRE(expected != nullptr);
  const Outcome outcome = render(source, folder, *context, false);
  ++count.total;
  const bool passed = matches(outcome, *expected);
  count.passed += passed ? 1 : 0;
  if (!expected->is_text()) {
    ++count.errors;
    if (outcome.text == field(*expected, "error")) {
      ++count.same_message;
    } else {
      UNSCOPED_INFO("other words: " << field(*expected, "error") << " | " << outcome.text);
    }
  }
  INFO(folder << ": " << field(test, "name"));
  INFO("got: " << (outcome.failed ? "error: " : "") << outcome.text);
  INFO("expected: " << (expected->is_text() ? expected->bytes() : field(*expected, "error")));
  CHECK(passed);
  if (const Value* relaxed = test.as_dict().find("expected_relaxed")) {
    CHECK(matches(render(source, folder, *context, true), *relaxed));
  }
}

}  // namespace

TEST_CASE("chat templates render exactly as the reference does") {
  const auto dir = sluice::test::shared_dir("conformance/templates");
  if (!dir) return;
  Count count;
  for (const auto& folder : fs::directory_iterator(*dir)) {
    if (!fs::exists(folder.path() / "cases.jsonl")) continue;
    const std::string source = read_file(folder.path() / "template.jinja");
    std::ifstream cases(folder.path() / "cases.jsonl");
    for (std::string line; std::getline(cases, line);) {
      const Value test = value_from_json(line);
      const std::string own = field(test, "template");
      check_case(folder.path().filename().string(), own.empty() ? source : own, test, count);
    }
  }
  CHECK(count.total > 2000);
  CHECK(count.passed == count.total);
  WARN(count.passed << " of " << count.total << " cases; " << count.same_message << " of "
                    << count.errors << " errors in the reference's words");
}
