// tokenize, detokenize and render: JSON lines in, JSON lines out, whatever the lines hold.
#include <simdjson.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "app/json_lines.hpp"
#include "engine/base/error.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

using namespace sluice;
using app::repair_json_text;
using test::Process;
using test::TempFile;

namespace {

const std::string kModel = (test::source_dir() / "models/demo-q8_0.gguf").string();
const std::string kWords =
    R"({"added_tokens":[{"id":3,"content":"<s>","special":true}],)"
    R"("pre_tokenizer":{"type":"WhitespaceSplit"},)"
    R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}}]},)"
    R"("model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"hello":1,"world":2}}})";

struct Run {
  int code = 0;
  std::vector<std::string> lines;
  std::string err;
};

Run run(std::vector<std::string> arguments, const std::string& input) {
  arguments.insert(arguments.begin(), SLUICE_PROGRAM);
  Process process(std::move(arguments), input);
  Run result;
  result.code = process.wait(std::chrono::seconds(120));
  result.err = process.err();
  std::istringstream out(process.out());
  for (std::string line; std::getline(out, line);) result.lines.push_back(line);
  return result;
}

bool is_error(const std::string& line) {
  simdjson::dom::parser parser;
  std::string_view text;
  return parser.parse(line)["error"].get(text) == simdjson::SUCCESS && !text.empty();
}

}  // namespace

TEST_CASE("text becomes ids and ids become text again") {
  const TempFile file(kWords);
  const Run ids =
      run({"tokenize", file.path().string()}, R"({"text":"hello world"})"
                                              "\n"
                                              R"({"text":"hello <s>","add_special_tokens":true})"
                                              "\r\n\n"
                                              R"({"text":"<s> x","parse_special":true})");
  CHECK(ids.code == 0);
  CHECK(ids.lines ==
        std::vector<std::string>{R"({"ids":[1,2]})", R"({"ids":[3,1,0]})", R"({"ids":[3,0]})"});
  const Run text =
      run({"detokenize", file.path().string()}, R"({"ids":[3,1,2,99,-1]})"
                                                "\n"
                                                R"({"ids":[3,1],"skip_special_tokens":true})"
                                                "\n"
                                                R"({"ids":[]})");
  CHECK(text.lines == std::vector<std::string>{R"({"text":"<s> hello world"})",
                                               R"({"text":"hello"})", R"({"text":""})"});
}

TEST_CASE("lines that make no sense get an error and the next its answer") {
  const TempFile file(kWords);
  const std::vector<std::string> bad = {"{",
                                        "[]",
                                        "null",
                                        "{}",
                                        R"({"text":7})",
                                        R"({"text":"a","parse_special":"yes"})",
                                        R"({"text":"a"} x)",
                                        std::string(100000, '[')};
  for (const std::string& line : bad) {
    INFO(line.substr(0, 60));
    const Run result = run({"tokenize", file.path().string()}, line + "\n{\"text\":\"hello\"}\n");
    CHECK(result.code == 0);
    REQUIRE(result.lines.size() == 2);
    CHECK(is_error(result.lines[0]));
    CHECK(result.lines[1] == R"({"ids":[1]})");
  }
  const Run ids = run({"detokenize", file.path().string()},
                      "{\"ids\":[1.5]}\n{\"ids\":[99999999999]}\n{\"ids\":7}\n");
  REQUIRE(ids.lines.size() == 3);
  for (const std::string& line : ids.lines) CHECK(is_error(line));
}

TEST_CASE("strings are exact and what is no text is replaced") {
  // The bundled model is byte-level: every text comes back as it was.
  const std::string texts[] = {R"("a\u0000b")", R"("\ud83d\ude00 \u00e9\t\"\\")", R"("\u2028")"};
  for (const std::string& text : texts) {
    const Run ids = run({"tokenize", kModel}, "{\"text\":" + text + "}\n");
    REQUIRE(ids.lines.size() == 1);
    const Run back = run({"detokenize", kModel}, ids.lines[0] + "\n");
    REQUIRE(back.lines.size() == 1);
    simdjson::dom::parser first;
    simdjson::dom::parser second;
    CHECK(first.parse(back.lines[0])["text"].get_string().value() ==
          second.parse("{\"text\":" + text + "}")["text"].get_string().value());
  }
  const auto ids_of = [](const std::string& line) { return run({"tokenize", kModel}, line).lines; };
  CHECK(ids_of("{\"text\":\"a\\ud800b\"}\n") == ids_of("{\"text\":\"a\\ufffdb\"}\n"));
  CHECK(ids_of("{\"text\":\"a\\udc00\\ud800\"}\n") == ids_of("{\"text\":\"a\\ufffd\\ufffd\"}\n"));
  CHECK(ids_of("{\"text\":\"a\xFF\"}\n") == ids_of("{\"text\":\"a\\ufffd\"}\n"));
}

TEST_CASE("repairing leaves valid JSON as it is") {
  for (const char* text : {R"({"a":"\\ud800"})", R"("\ud83d\ude00")", R"("\uD83D\uDE00x")",
                           "\xC3\xA9", R"("\\\\ud800")", ""}) {
    CHECK(repair_json_text(text) == text);
  }
  CHECK(repair_json_text(R"("\\\ud800")") == R"("\\\ufffd")");
  CHECK(repair_json_text(R"("\ud83dx\ude00\ud83d")") == R"("\ufffdx\ufffd\ufffd")");
  CHECK(repair_json_text("\"\\") == "\"\\");
}

TEST_CASE("templates render with their context alone") {
  const TempFile file("{{ a }} {{ b is defined }} {{ strftime_now('%Y-%m-%d %a') }}");
  const Run result = run({"render", file.path().string(), "--now", "2026-01-02T03:04:05"},
                         R"({"context":{"a":1.0}})"
                         "\n"
                         R"({"context":{"a":12345678901234567890,"b":null}})"
                         "\n{}\n{\"context\":[]}\n7\n");
  CHECK(result.code == 0);
  REQUIRE(result.lines.size() == 5);
  CHECK(result.lines[0] == R"({"text":"1.0 False 2026-01-02 Fri"})");
  CHECK(result.lines[1] == R"({"text":"12345678901234567890 True 2026-01-02 Fri"})");
  for (std::size_t i = 2; i < 5; ++i) CHECK(is_error(result.lines[i]));
}

TEST_CASE("a template that fails says so and goes on") {
  const TempFile file("{% if x %}\n{{ raise_exception('Not like this') }}{% endif %}{{ y.z }}");
  const Run result =
      run({"render", file.path().string()},
          "{\"context\":{\"x\":true}}\n{\"context\":{}}\n{\"context\":{\"y\":{}}}\n");
  REQUIRE(result.lines.size() == 3);
  CHECK(result.lines[0] == R"({"error":"Not like this","line":2})");
  CHECK(is_error(result.lines[1]));
  CHECK(result.lines[2] == R"({"text":""})");
  CHECK(run({"render", kModel}, R"({"context":{"messages":[]}})").code == 0);
  CHECK(run({"render", "/no/such.jinja"}, "").code == 1);
  const TempFile broken("{% if %}");
  CHECK(run({"render", broken.path().string()}, "").err.find("line 1") != std::string::npos);
}

TEST_CASE("an unknown pre-tokenizer is refused by name or used with a warning") {
  test::GgufWriter writer;
  writer.add_string("tokenizer.ggml.model", "gpt2");
  writer.add_string("tokenizer.ggml.pre", "from-the-future");
  writer.add_strings("tokenizer.ggml.tokens", {"a", "b", "ab"});
  writer.add_strings("tokenizer.ggml.merges", {"a b"});
  const TempFile file = writer.write_temp();
  const Run refused = run({"tokenize", file.path().string()}, "{\"text\":\"ab\"}\n");
  CHECK(refused.code == 1);
  CHECK(refused.err.find("'from-the-future'") != std::string::npos);
  CHECK(refused.err.find("--allow-unknown-pretokenizer") != std::string::npos);
  const Run allowed = run({"tokenize", file.path().string(), "--allow-unknown-pretokenizer"},
                          "{\"text\":\"ab\"}\n");
  CHECK(allowed.code == 0);
  CHECK(allowed.lines == std::vector<std::string>{R"({"ids":[2]})"});
  CHECK(allowed.err.find("warning") != std::string::npos);
}
