// Real models through the whole engine.
#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine.hpp"
#include "tests/actors/alone.hpp"
#include "tests/support/shared_data.hpp"
#include "tests/support/stream_log.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

EngineConfig config_for(const std::filesystem::path& model) {
  EngineConfig config;
  config.model = model;
  config.threads = 2;
  config.plan.sequences = 4;
  return config;
}

TEST_CASE("stories260K goes on as its card says", "[engine][models]") {
  const auto model = shared_dir("models/stories260K.gguf");
  if (!model) return;
  Engine engine(prepare_engine(config_for(*model)));
  GenerateRequest request;
  request.input = "Once upon a time";
  request.sampling.temperature = 0.0F;
  request.stop.max_new_tokens = 200;
  auto log = std::make_shared<StreamLog>();
  (void)engine.generate(request, recorder(log), Delivery::kOnReturn);
  REQUIRE(log->wait_for_end());
  CHECK(log->sound());
  const std::string card =
      ", there was a little girl named Lily. She loved to play outside in the park. One day, she "
      "saw a big, red ball. She wanted to play with it, but it was too high.\nLily's mom said, "
      "\"Lily, let's go to the park.\" Lily was sad and didn't know what to do. She said, \"I want "
      "to play with your ball, but I can'";
  CHECK(log->text().substr(0, card.size()) == card);
}

TEST_CASE("64 streams of the demo model give what each gives alone", "[engine][models]") {
  const auto model = shared_dir("models/demo/demo-q8_0.gguf");
  if (!model) return;
  const EngineConfig config = config_for(*model);
  const PreparedEngine prepared = prepare_engine(config);
  const std::vector<std::string> wishes = {
      "Tell me a story about a cat and a boat.", "Hello!", "Who are you?",
      "Write a story with the words moon, shoe and frog.", "Another one, please!"};
  std::vector<GenerateRequest> requests;
  for (std::size_t i = 0; i < 64; ++i) {
    GenerateRequest request;
    request.input = std::vector<ChatMessage>{
        {"user", wishes[i % wishes.size()] + std::string(i / wishes.size(), '!')}};
    request.sampling.temperature = i % 8 == 0 ? 0.0F : 0.8F;
    request.sampling.top_p = 0.9F;
    request.seed = 1000 + i;
    request.stop.max_new_tokens = static_cast<Position>(12 + i % 24);
    requests.push_back(std::move(request));
  }

  Engine engine(prepare_engine(config));
  CHECK(engine.info().end_tokens == std::vector<std::string>{"<|endoftext|>", "<|im_end|>"});
  std::vector<std::shared_ptr<StreamLog>> logs;
  for (const GenerateRequest& request : requests) {
    logs.push_back(std::make_shared<StreamLog>());
    (void)engine.generate(request, recorder(logs.back()), Delivery::kOnReturn);
  }
  std::size_t different = 0;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    REQUIRE(logs[i]->wait_for_end());
    CHECK(logs[i]->sound());
    CHECK(logs[i]->text() == text_alone(prepared, requests[i]));
    if (logs[i]->text() != logs[0]->text()) ++different;
  }
  CHECK(different > 40);
  REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
}

TEST_CASE("a seeded stream can be had again", "[engine][models]") {
  const auto model = shared_dir("models/demo/demo-q8_0.gguf");
  if (!model) return;
  Engine engine(prepare_engine(config_for(*model)));
  GenerateRequest request;
  request.input = std::vector<ChatMessage>{{"user", "Tell me a story."}};
  request.stop.max_new_tokens = 40;
  auto first = std::make_shared<StreamLog>();
  (void)engine.generate(request, recorder(first), Delivery::kOnReturn);
  REQUIRE(first->wait_for_end());
  request.seed = std::get<AcceptedEvent>(first->events().front()).seed;
  auto second = std::make_shared<StreamLog>();
  (void)engine.generate(request, recorder(second), Delivery::kOnReturn);
  REQUIRE(second->wait_for_end());
  CHECK(second->text() == first->text());
}

TEST_CASE("the service says what it serves", "[engine][models]") {
  const auto model = shared_dir("models/demo/demo-q8_0.gguf");
  if (!model) return;
  const Engine engine(prepare_engine(config_for(*model)));
  const ServiceInfo& info = engine.info();
  CHECK(info.context_length == 512);
  CHECK(info.model_summary == "llama, 6 layers, 2.8 M parameters, q8_0");
  CHECK(info.default_max_new_tokens == 512);
  CHECK(info.plan.num_blocks > 0);
  CHECK(!info.backend.empty());
  CHECK(!info.tokenizer.empty());
  CHECK(!info.chat_template.empty());
}

}  // namespace
