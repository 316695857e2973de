// An encoder-decoder model through the whole engine.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine.hpp"
#include "tests/support/stream_log.hpp"
#include "tests/support/t5_model.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

EngineConfig config_for(const std::filesystem::path& model) {
  EngineConfig config;
  config.model = model;
  config.threads = 2;
  config.precise = true;
  config.plan.kv_type_k = config.plan.kv_type_v = DType::kF32;
  config.plan.sequences = 4;
  config.plan.context = 200;
  config.plan.memory_limit_bytes = std::size_t{1} << 28;
  return config;
}

/// Greedy output by the definition, until the end token.
std::vector<TokenId> expected(const T5Model& model, const std::vector<TokenId>& input,
                              std::size_t count) {
  std::vector<TokenId> read = {0};
  while (read.size() <= count && (read.size() == 1 || read.back() != 1)) {
    const std::vector<double> last = model.logits(input, read).back();
    read.push_back(static_cast<TokenId>(std::ranges::max_element(last) - last.begin()));
  }
  return {read.begin() + 1, read.end()};
}

GenerateRequest greedy(const std::string& prompt) {
  GenerateRequest request;
  request.input = prompt;
  request.sampling.temperature = 0.0F;
  request.stop.max_new_tokens = 12;
  return request;
}

}  // namespace

TEST_CASE("streams of an encoder-decoder give what its definition says", "[engine]") {
  T5Shape shape;
  shape.gated = true;
  const T5Model model(shape);
  const TempFile file(model.gguf_bytes());
  PreparedEngine prepared = prepare_engine(config_for(file.path()));
  const auto tokenizer = prepared.tokenizer;
  warm_up(prepared);
  CHECK(prepared.plan.scratch_measured);
  Engine engine(std::move(prepared));

  const std::vector<std::string> prompts = {
      "abc", "hello there", "a", "the quick brown fox", "abc", "zzzz yyyy xxxx wwww vvvv"};
  std::vector<std::shared_ptr<StreamLog>> logs;
  for (const std::string& prompt : prompts) {
    logs.push_back(std::make_shared<StreamLog>());
    (void)engine.generate(greedy(prompt), recorder(logs.back()), Delivery::kOnReturn);
  }
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    CAPTURE(prompts[i]);
    REQUIRE(logs[i]->wait_for_end());
    CHECK(logs[i]->sound());
    const std::vector<TokenId> input = tokenizer->encode(prompts[i], {.add_special = true});
    REQUIRE(input.back() == 1);
    CHECK(logs[i]->ids() == expected(model, input, 12));
    // The decoder's first token counts as one of the prompt.
    CHECK(logs[i]->done().usage.prompt_tokens == static_cast<Position>(input.size()) + 1);
  }
  CHECK(eventually([&] { return engine.stats().kv.used == 0; }));

  // Longer than the context leaves room for.
  auto log = std::make_shared<StreamLog>();
  (void)engine.generate(greedy(std::string(300, 'a')), recorder(log), Delivery::kOnReturn);
  REQUIRE(log->wait_for_end());
  CHECK(log->outcome() == "error:prompt_too_long");
  CHECK_THAT(log->error_message(), Catch::Matchers::Contains("the encoder takes at most 198"));
}
