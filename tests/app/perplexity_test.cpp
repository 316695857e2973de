// sluice perplexity and calibrate-keys as a user meets them.
#include <simdjson.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

using sluice::test::Process;
using sluice::test::source_dir;

namespace {

const std::string kModel = (source_dir() / "models/demo-q8_0.gguf").string();
const std::string kText = (source_dir() / "README.md").string();

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

Result run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), SLUICE_PROGRAM);
  Process process(std::move(arguments), "");
  const int code = process.wait(std::chrono::seconds(120));
  return {code, process.out(), process.err()};
}

std::vector<std::string> measure(std::vector<std::string> more) {
  std::vector<std::string> arguments{"perplexity", kModel,     kText,       "--context",
                                     "64",         "--stride", "32",        "--max-tokens",
                                     "64",         "--json",   "--threads", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

struct Figures {
  explicit Figures(const Result& result) {
    INFO(result.err);
    REQUIRE(result.code == 0);
    simdjson::dom::parser parser;
    const simdjson::dom::element json = parser.parse(result.out);
    perplexity = double{json["model"]["perplexity"]};
    kv_bytes = std::int64_t{json["model"]["kv_bytes"]};
    positions = std::int64_t{json["model"]["positions"]};
    tokens = std::int64_t{json["tokens"]};
    simdjson::dom::element kl;
    if (json["mean_kl"].get(kl) == simdjson::SUCCESS) mean_kl = double{kl};
  }
  double perplexity = 0;
  double mean_kl = -1;
  std::int64_t kv_bytes = 0, positions = 0, tokens = 0;
};

}  // namespace

TEST_CASE("perplexity measures types and recomputes the same digits") {
  const Figures f16(run(measure({})));
  CHECK(f16.tokens == 64);
  CHECK(f16.mean_kl == 0.0);
  CHECK(f16.kv_bytes == 64 * 2304);
  const Figures again(run(measure({"--recompute", "--against", "none"})));
  CHECK(again.perplexity == f16.perplexity);
  CHECK(again.mean_kl == -1);
  CHECK(again.positions > 20 * f16.positions);
  const Figures q8(run(measure({"--kv-type", "q8_0"})));
  CHECK(q8.mean_kl > 0.0);
  CHECK(q8.mean_kl < 0.01);
  CHECK(q8.kv_bytes == 64 * 1224);
  const Figures v_only(run(measure({"--kv-v-int8"})));
  CHECK(v_only.kv_bytes == 64 * 1764);
  const Figures mixed(run(measure({"--kv-type", "q4_0", "--kv-type-layer", "0-2=f16"})));
  CHECK(mixed.kv_bytes == 64 * (1152 + 324));
  const Figures sparse(run(measure({"--attention-window", "8", "--attention-stride", "4"})));
  CHECK(sparse.mean_kl > 0.0);
}

TEST_CASE("keys of a lower rank are calibrated and measured") {
  const std::filesystem::path keys =
      std::filesystem::temp_directory_path() / ("sluice-app-keys-" + std::to_string(getpid()));
  const Result made = run({"calibrate-keys", kModel, kText, keys.string(), "--max-tokens", "512"});
  CHECK(made.code == 0);
  const Figures low(run(measure({"--key-basis", keys.string(), "--key-rank", "16"})));
  CHECK(low.kv_bytes == 64 * 2304 * 3 / 4);
  CHECK(low.mean_kl > 0.0);
  CHECK(run(measure({"--key-basis", keys.string(), "--key-rank", "33"})).code == 2);
  CHECK(run(measure({"--key-basis", kText, "--key-rank", "16"})).code == 1);
  std::filesystem::remove(keys);
}

TEST_CASE("evaluations that can not be made end with a sentence") {
  const auto error = [](const std::vector<std::string>& more, int code) {
    const Result result = run(measure(more));
    CHECK(result.code == code);
    CHECK(result.out.empty());
    return result.err;
  };
  CHECK(error({"--kv-type", "q5_0"}, 2).find("--kv-type") != std::string::npos);
  CHECK(error({"--against", "tiny"}, 2).find("--against") != std::string::npos);
  CHECK(error({"--kv-type-layer", "0-9=f16"}, 2).find("0-5") != std::string::npos);
  CHECK(error({"--skip", "64"}, 2).find("63") != std::string::npos);
  CHECK(error({"--attention-window", "8"}, 2).find("--attention-stride") != std::string::npos);
  CHECK(run({"perplexity", kModel, "/nonexistent"}).code == 1);
}
