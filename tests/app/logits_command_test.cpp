// sluice logits as a user calls it, and an encoder-decoder through the commands: against the naive
// calculation of a small T5.
#include <simdjson.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/t5_model.hpp"

using namespace sluice;
using namespace sluice::test;
using Catch::Matchers::Contains;

namespace {

const std::string kModel = (source_dir() / "models/demo-q8_0.gguf").string();
using Logits = std::vector<std::vector<double>>;

struct Run {
  int code = 0;
  std::string out;
  std::string err;
};

Run run(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), SLUICE_PROGRAM);
  Process process(std::move(arguments), input);
  Run result;
  result.code = process.wait(std::chrono::seconds(120));
  result.out = process.out();
  result.err = process.err();
  return result;
}

/// The answer to one line.
Logits logits_of(std::vector<std::string> arguments, const std::string& line) {
  arguments.insert(arguments.begin(), "logits");
  const Run result = run(std::move(arguments), line + "\n");
  CAPTURE(result.err, result.out.substr(0, 300));
  REQUIRE(result.code == 0);
  simdjson::dom::parser parser;
  Logits logits;
  simdjson::dom::array rows;
  REQUIRE(parser.parse(result.out)["logits"].get(rows) == simdjson::SUCCESS);
  for (const simdjson::dom::element row : rows) {
    logits.emplace_back();
    for (const simdjson::dom::element value : row) logits.back().push_back(double(value));
  }
  return logits;
}

std::string error_of(std::vector<std::string> arguments, const std::string& line) {
  arguments.insert(arguments.begin(), "logits");
  const Run result = run(std::move(arguments), line + "\n");
  simdjson::dom::parser parser;
  std::string_view text;
  if (parser.parse(result.out)["error"].get(text) != simdjson::SUCCESS) return "";
  return std::string(text);
}

double largest_difference(const Logits& a, const Logits& b) {
  double largest = a.size() == b.size() ? 0.0 : HUGE_VAL;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    for (std::size_t j = 0; j < a[i].size(); ++j)
      largest = std::max(largest, std::abs(a[i][j] - b[i].at(j)));
  return largest;
}

std::string list(const std::vector<TokenId>& tokens) {
  return fmt::format("[{}]", fmt::join(tokens, ","));
}

}  // namespace

TEST_CASE("logits are the same token by token and differ by the KV type as they should") {
  const std::string line = R"({"tokens":[1,5,9,200,31,77,12,450],"positions":[7,0,3,3]})";
  const Logits whole = logits_of({kModel, "--kv-type", "f32"}, line);
  REQUIRE(whole.size() == 4);
  CHECK(whole[2] == whole[3]);
  CHECK(logits_of({kModel, "--kv-type", "f32", "--step"}, line) == whole);
  CHECK(logits_of({kModel, "--kv-type", "f32", "--token-budget", "3"}, line) == whole);
  const Logits rounded = logits_of({kModel, "--kv-type", "q8_0"}, line);
  CHECK(largest_difference(rounded, whole) > 1e-5);
  CHECK(largest_difference(rounded, whole) < 0.5);
  CHECK(logits_of({kModel, "--kv-type", "q8_0", "--step"}, line) == rounded);
  // Without positions: those of the last.
  CHECK(logits_of({kModel, "--kv-type", "f32"}, R"({"tokens":[1,5,9,200,31,77,12,450]})") ==
        Logits{whole[0]});
}

TEST_CASE("a line that logits can not answer gets an error") {
  CHECK_THAT(error_of({kModel}, R"({"tokens":[]})"), Contains("at least one token"));
  CHECK_THAT(error_of({kModel}, R"({"tokens":[1,2],"positions":[2]})"), Contains("position 2"));
  CHECK_THAT(error_of({kModel}, R"({"tokens":[99999999]})"), Contains("vocabulary"));
  CHECK_THAT(error_of({kModel}, R"({"tokens":[1],"encoder_tokens":[1]})"),
             Contains("has no encoder"));
}

TEST_CASE("logits of an encoder-decoder follow its definition through the command") {
  T5Shape shape;
  shape.gated = true;
  const T5Model model(shape);
  const TempFile file(model.gguf_bytes());
  const std::string path = file.path().string();
  const std::vector<TokenId> input = {7, 30, 12, 44, 9, 9, 51, 1};
  const std::vector<TokenId> tokens = {0, 17, 23, 5, 40};
  const std::string line = fmt::format(
      R"({{"encoder_tokens":{},"tokens":{},"positions":[0,1,2,3,4]}})", list(input), list(tokens));
  const Logits whole = logits_of({path, "--kv-type", "f32"}, line);
  CHECK(largest_difference(whole, model.logits(input, tokens)) < 2e-4);
  CHECK(logits_of({path, "--kv-type", "f32", "--step"}, line) == whole);
  CHECK(largest_difference(logits_of({path, "--kv-type", "q8_0"}, line), whole) < 0.2);
  CHECK_THAT(error_of({path}, R"({"tokens":[0]})"), Contains("encoder_tokens"));
  CHECK_THAT(error_of({path}, R"({"tokens":[0],"encoder_tokens":[]})"), Contains("takes 1 to 512"));
}

TEST_CASE("an encoder-decoder answers a prompt and says what it is and can not do") {
  T5Shape shape;
  shape.gated = true;
  shape.tied = false;
  const T5Model model(shape);
  const TempFile file(model.gguf_bytes());
  const std::string path = file.path().string();

  const Run ids = run({"tokenize", path}, R"({"text":"abc","add_special_tokens":true})");
  CHECK_THAT(ids.out, Contains("[3,4,5,6,1]"));
  const std::vector<TokenId> input = {3, 4, 5, 6, 1};
  std::vector<TokenId> read = {0};
  while (read.size() < 9) {
    const std::vector<double> last = model.logits(input, read).back();
    const auto best = std::ranges::max_element(last) - last.begin();
    if (best == 1) break;
    read.push_back(static_cast<TokenId>(best));
  }
  const Run text =
      run({"detokenize", path}, fmt::format(R"({{"ids":{},"skip_special_tokens":true}})",
                                            list({read.begin() + 1, read.end()})));
  const Run answer =
      run({"generate", "-m", path, "-p", "abc", "-n", "8", "--temperature", "0", "--precise"});
  CAPTURE(answer.err);
  REQUIRE(answer.code == 0);
  simdjson::dom::parser parser;
  std::string_view expected;
  REQUIRE(parser.parse(text.out)["text"].get(expected) == simdjson::SUCCESS);
  while (expected.starts_with(' ')) expected.remove_prefix(1);
  CHECK_THAT(answer.out, Contains(std::string(expected)));

  const Run inspect = run({"inspect", path});
  CHECK_THAT(inspect.out, Contains("2 in the encoder, 3 in the decoder"));
  CHECK_THAT(inspect.out, Contains("relative, 32 buckets"));
  const Run plan = run({"plan", path});
  CHECK_THAT(plan.out, Contains("encoder's input"));
  const Run perplexity = run({"perplexity", path, kModel});
  CHECK(perplexity.code != 0);
  CHECK_THAT(perplexity.err, Contains("has an encoder"));
  const Run trimmed = run({"plan", path, "--kv-budget", "64"});
  CHECK(trimmed.code != 0);
  CHECK_THAT(trimmed.err, Contains("has an encoder"));
}
