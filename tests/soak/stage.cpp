#include "tests/soak/stage.hpp"

#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/scripted_engine.hpp"

namespace sluice::soak {

namespace {

constexpr std::chrono::milliseconds kBetweenLooks{2};
constexpr Position kScriptContext = 320;
constexpr Position kModelOutput = 128;

SchedulerOptions roomy_queue(const Options& options) {
  SchedulerOptions scheduler;
  scheduler.max_waiting = static_cast<std::int32_t>(options.streams * 2);
  return scheduler;
}

Reference reference_of(const test::Script& script, const std::string& prompt, Position longest) {
  const test::ByteTokenizer tokenizer;
  std::vector<TokenId> tokens = tokenizer.encode(prompt, {.add_special = true});
  Reference reference;
  for (Position i = 0; i < longest; ++i) {
    const TokenId next = script(tokens);
    tokens.push_back(next);
    reference.ids.push_back(next);
    if (!tokenizer.is_special(next)) reference.text += tokenizer.token_bytes(next);
  }
  return reference;
}

Stage scripted_stage(const Options& options) {
  Stage stage;
  stage.steps_until_fatal = std::make_shared<std::atomic<int>>(-1);
  test::ScriptedEngineOptions scripted;
  scripted.next_token = test::ending_script(300);
  scripted.context = kScriptContext;
  scripted.block_size = 16;
  scripted.num_blocks = 400;  // less than 64 sequences need: some give way
  scripted.steps_until_fatal = stage.steps_until_fatal;
  scripted.config.scheduler = roomy_queue(options);
  scripted.config.restart.max_restarts = 1000000;
  scripted.config.heartbeat_interval = std::chrono::milliseconds(500);
  stage.prepared = test::scripted_engine(scripted);
  stage.crowd.stop_texts = {"ab", "zz", "the", " q", "x y", "mnop", "a", "never seen here"};
  stage.crowd.next_prompt = [script = scripted.next_token](Random& random) {
    Prompt prompt;
    // Half of them begin alike, for the prefix cache.
    if (random() % 2 == 0) prompt.text = "a beginning that many of the prompts have in common ";
    const std::size_t length = prompt.text.size() + 1 + random() % 60;
    while (prompt.text.size() < length) prompt.text += static_cast<char>('a' + random() % 26);
    prompt.longest = kScriptContext - static_cast<Position>(length) - 1;
    prompt.reference =
        std::make_shared<const Reference>(reference_of(script, prompt.text, prompt.longest));
    return prompt;
  };
  return stage;
}

/// The answer to a prompt by the engine itself while nobody else is there.
Reference reference_of(Engine& engine, const std::string& prompt) {
  struct Heard {
    Reference reference;
    std::atomic<bool> ended{false};
  };
  const auto heard = std::make_shared<Heard>();
  GenerateRequest request;
  request.input = prompt;
  request.sampling.temperature = 0.0F;
  request.stop.max_new_tokens = kModelOutput + 8;  // so that no code point is cut where it matters
  request.stop.ignore_end_tokens = true;
  (void)engine.generate(
      request,
      [heard](const Event& event) {
        if (const auto* token = std::get_if<TokenEvent>(&event)) {
          heard->reference.text += token->text;
          for (const TokenPiece& piece : token->pieces) heard->reference.ids.push_back(piece.id);
        }
        if (is_terminal(event)) heard->ended = true;
      },
      Delivery::kOnReturn);
  while (!heard->ended) std::this_thread::sleep_for(kBetweenLooks);
  return heard->reference;
}

Stage model_stage(const Options& options) {
  EngineConfig config;
  config.model = options.model;
  config.scheduler = roomy_queue(options);
  Stage stage;
  stage.prepared = prepare_engine(config);
  stage.crowd.any_temperature = false;
  stage.crowd.stop_texts = {"\n", " the", "was", "!", "He ", ". She", "never seen here"};
  auto prompts = std::make_shared<std::vector<Prompt>>();
  Engine engine(stage.prepared);
  for (const char* text : {"Once upon a time", "The little dog", "Lily and Tom went", "One day,",
                           "There was a big", "A cat sat", "Mum said", "In the park"}) {
    prompts->push_back(
        {text, kModelOutput, std::make_shared<const Reference>(reference_of(engine, text))});
  }
  stage.crowd.next_prompt = [prompts](Random& random) { return (*prompts)[random() % 8]; };
  return stage;
}

}  // namespace

Stage make_stage(const Options& options) {
  Stage stage = options.model.empty() ? scripted_stage(options) : model_stage(options);
  stage.crowd.streams = options.streams;
  return stage;
}

}  // namespace sluice::soak
