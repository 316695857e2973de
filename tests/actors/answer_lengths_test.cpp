// The default of max_new_tokens: learned, kept, and never in the way.
#include "actors/answer_lengths.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actors/engine.hpp"
#include "tests/support/scripted_engine.hpp"
#include "tests/support/stream_log.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;
namespace fs = std::filesystem;

/// A folder of its own that goes with the test.
struct Folder {
  fs::path path = fs::temp_directory_path() /
                  ("sluice-lengths-" + std::to_string(::getpid()) + "-" + std::to_string(next()));
  Folder() { fs::create_directories(path); }
  ~Folder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
  static int next() {
    static int last = 0;
    return ++last;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) found.push_back(entry.path());
    }
    return found;
  }
};

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void observe(AnswerLengths& lengths, int times, Position tokens) {
  for (int i = 0; i < times; ++i) {
    lengths.observe({.rule = StopRule::kEndToken, .tokens = tokens});
  }
}

TEST_CASE("the configured default holds until there are 200 answers", "[lengths]") {
  AnswerLengths lengths(512);
  CHECK(lengths.in_force().tokens == 512);
  observe(lengths, 199, 20);
  lengths.observe({.rule = StopRule::kCancelled, .tokens = 20});
  CHECK(lengths.in_force().tokens == 512);
  CHECK_FALSE(lengths.in_force().observed);
  CHECK(lengths.in_force().samples == 199);
  observe(lengths, 1, 20);
  CHECK(lengths.in_force().tokens == 20);
  CHECK(lengths.in_force().observed);
}

TEST_CASE("what was learned is there after a restart", "[lengths]") {
  const Folder folder;
  const fs::path file = folder.path / "deep" / "er" / "model.lengths";
  {
    AnswerLengths lengths(512, file);
    observe(lengths, 300, 17);
  }
  CHECK(folder.files() == std::vector<fs::path>{file});  // nothing half-written beside it
  AnswerLengths again(512, file);
  CHECK(again.in_force().tokens == 17);
  CHECK(again.in_force().observed);
  CHECK(again.in_force().samples == 300);
}

TEST_CASE("the file is written while the engine runs and only when something is new", "[lengths]") {
  const Folder folder;
  const fs::path file = folder.path / "model.lengths";
  AnswerLengths lengths(512, file, std::chrono::milliseconds(1));
  observe(lengths, 1, 17);
  REQUIRE(eventually([&] { return fs::exists(file); }));
  const std::string first = content_of(file);
  CHECK(LengthSketch::parse(first).samples() == 1);
  fs::remove(file);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(fs::exists(file));
  observe(lengths, 1, 17);
  REQUIRE(eventually([&] { return fs::exists(file); }));
}

TEST_CASE("no content of the file stops an engine", "[lengths]") {
  const Folder folder;
  const fs::path file = folder.path / "model.lengths";
  const std::vector<std::string> contents{"",
                                          "\n",
                                          "sluice-lengths 2 3 1:1\n",
                                          "sluice-lengths 1 999999999999999999999999 1:1\n",
                                          "sluice-lengths 1 300 4:nan\n",
                                          "sluice-lengths 1 300 4:-1\n",
                                          "sluice-lengths 1 300 99999999999:1\n",
                                          "sluice-lengths 1 300 5:1 4:1\n",
                                          "sluice-lengths 1 300 5:1",
                                          std::string("sluice-lengths 1 300 5:1\n\0", 26),
                                          std::string(1 << 20, '7'),
                                          "\xff\xfe\x00"};
  for (const std::string& content : contents) {
    std::ofstream(file, std::ios::binary) << content;
    AnswerLengths lengths(512, file);
    CHECK(lengths.in_force().tokens == 512);
    CHECK(lengths.in_force().samples == 0);
    observe(lengths, 200, 9);
    CHECK(lengths.in_force().tokens == 9);
  }
  // Each of them was replaced by what was learned since.
  CHECK(AnswerLengths(512, file).in_force().samples == 200);
}

TEST_CASE("a file that can not be read or written is gone without", "[lengths]") {
  const Folder folder;
  const fs::path in_the_way = folder.path / "file";
  std::ofstream(in_the_way) << "x";
  for (const fs::path& file : {folder.path, in_the_way / "model.lengths"}) {
    AnswerLengths lengths(512, file, std::chrono::milliseconds(1));
    observe(lengths, 250, 9);
    CHECK(lengths.in_force().tokens == 9);
  }
  CHECK(folder.files() == std::vector<fs::path>{in_the_way});
}

TEST_CASE("a file has the name of its model and cannot leave the folder", "[lengths]") {
  const ByteTokenizer tokenizer;
  ModelConfig model;
  model.name = "../../etc/Model 7B\n";
  const fs::path file = lengths_file("/state", model, tokenizer);
  CHECK(file.parent_path() == "/state");
  CHECK(file.filename().string().starts_with("------etc-Model-7B--"));
  CHECK(file.extension() == ".lengths");
  CHECK(lengths_file("/state", model, tokenizer) == file);
  model.num_layers = 99;
  CHECK(lengths_file("/state", model, tokenizer) != file);
  model.name = std::string(5000, 'x');
  CHECK(lengths_file("/state", model, tokenizer).filename().string().size() < 100);
  CHECK(lengths_file("", model, tokenizer).empty());
}

/// Runs one stream without a maximum of its own and returns the one in force.
Position default_in(Engine& engine, const std::string& prompt,
                    std::optional<Position> chosen = std::nullopt) {
  auto log = std::make_shared<StreamLog>();
  GenerateRequest request;
  request.input = prompt;
  request.stop.max_new_tokens = chosen;
  (void)engine.generate(request, recorder(log), Delivery::kOnReturn);
  REQUIRE(log->wait_for_end());
  REQUIRE(log->wait_for_destruction());
  return std::get<AcceptedEvent>(log->events().front()).max_new_tokens;
}

TEST_CASE("an engine learns how long answers get and remembers it", "[lengths][engine]") {
  const Folder folder;
  ScriptedEngineOptions options;
  // Every answer is 11 letters and the end token.
  options.next_token = [](std::span<const TokenId> tokens) -> TokenId {
    return tokens.size() >= 13 ? ByteTokenizer::kEos : 'x';
  };
  options.config.default_max_new_tokens = 100;
  options.config.state_dir = folder.path / "state";
  {
    Engine engine(scripted_engine(options));
    CHECK(engine.info().default_max_new_tokens == 100);
    CHECK(default_in(engine, "a") == 100);
    (void)default_in(engine, "a", 5);  // the caller's choice teaches nothing
    CHECK(engine.stats().default_maximum.samples == 1);
    for (int i = 0; i < 198; ++i) (void)default_in(engine, "a");
    CHECK(engine.stats().default_maximum.tokens == 100);
    CHECK_FALSE(engine.stats().default_maximum.observed);
    CHECK(default_in(engine, "a") == 100);
    CHECK(engine.stats().default_maximum.observed);
    CHECK(engine.stats().default_maximum.tokens == 12);
    CHECK(default_in(engine, "a") == 12);
    CHECK(default_in(engine, "a", 30) == 30);
    CHECK(default_in(engine, std::string(506, 'a')) == 5);  // never more than the room
  }
  CHECK(folder.files().size() == 1);
  Engine again(scripted_engine(options));
  CHECK(again.stats().default_maximum.observed);
  CHECK(default_in(again, "a") == 12);
}

TEST_CASE("a maximum that was changed on the way is the caller's", "[lengths][engine]") {
  ScriptedEngineOptions options;
  options.config.credit_window = 4;
  options.config.default_max_new_tokens = 30;
  Engine engine(scripted_engine(options));
  const auto run = [&](bool change) {
    auto log = std::make_shared<StreamLog>();
    GenerateRequest request;
    request.input = "abc";
    const StreamHandle handle = engine.generate(request, recorder(log), Delivery::kAcknowledged);
    REQUIRE(log->wait_for_tokens(4));
    if (change) handle.change({.max_new_tokens = 20});
    REQUIRE(eventually([&] {
      handle.delivered(log->last_number());
      return log->terminals() > 0;
    }));
    return log->ids().size();
  };
  CHECK(run(true) == 20);
  CHECK(engine.stats().default_maximum.samples == 0);
  CHECK(run(false) == 30);
  CHECK(engine.stats().default_maximum.samples == 1);
}

}  // namespace
