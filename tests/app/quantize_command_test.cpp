// sluice quantize and inspect, as a user meets them.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/model_folder.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice::test;
using Catch::Matchers::Contains;

namespace {

const std::string kModel = (source_dir() / "models/demo-q8_0.gguf").string();

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

Result run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), SLUICE_PROGRAM);
  Process process(std::move(arguments));
  const int code = process.wait(std::chrono::seconds(120));
  return {code, process.out(), process.err()};
}

}  // namespace

TEST_CASE("quantize writes a model that runs and says what became of it") {
  const TempFolder folder;
  const std::string output = (folder.path() / "small.gguf").string();
  folder.write("text.txt", "Once upon a time, there was a little girl who liked to play outside.");
  const Result result = run({"quantize", kModel, output, "--type", "q4_0", "--perplexity",
                             (folder.path() / "text.txt").string()});
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("written in") && Contains("q4_0") && Contains(output));
  CHECK_THAT(result.out, Contains("perplexity on") && Contains("likeliest token"));
  CHECK_THAT(result.err, Contains("quantised before"));
  const Result answer =
      run({"generate", "-m", output, "-p", "Once upon a time", "-n", "4", "-t", "0"});
  INFO(answer.err);
  CHECK(answer.code == 0);
  CHECK_FALSE(answer.out.empty());
}

TEST_CASE("quantize replaces nothing without being told and knows its types") {
  const TempFolder folder;
  const std::string output = (folder.path() / "small.gguf").string();
  folder.write("small.gguf", "precious");
  const Result refused = run({"quantize", kModel, output, "--type", "Q4_0"});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("--force"));
  CHECK(std::filesystem::file_size(output) == 8);
  CHECK(run({"quantize", kModel, output, "--type", "Q4_0", "--force"}).code == 0);
  CHECK(std::filesystem::file_size(output) > 100000);

  const Result unknown = run({"quantize", kModel, output, "--type", "Q9"});
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, Contains("Q4_K_M") && Contains("q8-full-embedding"));
  CHECK_THAT(run({"quantize", output, output, "--force"}).err, Contains("the model that is read"));
  CHECK_THAT(run({"quantize", kModel, (folder.path() / "none/x.gguf").string()}).err,
             Contains("none/x.gguf"));
  CHECK_THAT(run({"quantize", "--help"}).out, Contains("q8-full-embedding"));
}

TEST_CASE("inspect shows what is in a folder") {
  const auto dir = shared_dir("reference/hf/llama-gqa/bf16-sharded");
  if (!dir) return;
  const Result result = run({"inspect", dir->string()});
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("Hugging Face folder, 2 safetensors files") && Contains("bf16") &&
                             Contains("<|im_end|> (330)") && Contains("<|endoftext|> (328)") &&
                             Contains("Jinja"));
}
