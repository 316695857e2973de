// Reasoning markers through the whole engine: which stops look at which part of an answer.
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "actors/engine.hpp"
#include "tests/support/scripted_engine.hpp"
#include "tests/support/stream_log.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

/// Marks its reasoning; with `open`, a prompt ends with the opening tag.
class ThinkingTemplate final : public ChatTemplate {
 public:
  explicit ThinkingTemplate(bool open) : open_(open) {}
  RenderedPrompt render(std::span<const ChatMessage> messages,
                        bool add_generation_prompt) const override {
    RenderedPrompt prompt = LineTemplate().render(messages, add_generation_prompt);
    if (open_) prompt.text += "<think>";
    return prompt;
  }
  std::vector<std::string> turn_ends() const override { return {}; }
  std::string description() const override { return "thinking"; }
  std::optional<ReasoningTags> reasoning() const override {
    return ReasoningTags{"<think>", "</think>"};
  }

 private:
  bool open_;
};

struct Answer {
  std::string text;
  std::string outcome;
  std::optional<ReasoningMarkers> reasoning;
};

/// What a model says that always says `script`, with this stop string.
Answer answer(const std::string& script, StopScope scope, bool opened_by_template = false) {
  const auto chat = std::make_shared<ThinkingTemplate>(opened_by_template);
  GenerateRequest request;
  const std::vector<ChatMessage> messages = {{"user", "abc"}};
  request.input = messages;
  request.stop.stop_strings = {{.text = "STOP", .scope = scope}};
  request.stop.max_new_tokens = static_cast<Position>(script.size());
  const RenderedPrompt prompt = chat->render_chat(messages, {});
  ScriptedEngineOptions options;
  options.next_token = repeating_script(script, prompt.text.size() + 1);
  PreparedEngine prepared = scripted_engine(options);
  prepared.chat_template = chat;
  Engine engine(std::move(prepared));
  auto log = std::make_shared<StreamLog>();
  (void)engine.generate(request, recorder(log), Delivery::kOnReturn);
  REQUIRE(log->wait_for_end());
  CHECK(log->sound());
  return {log->text(), log->outcome(), std::get<AcceptedEvent>(log->events().front()).reasoning};
}

const std::string kScript = "<think>no STOP here</think>yes STOP never";

}  // namespace

TEST_CASE("a stop of the content does not end the reasoning", "[engine]") {
  const Answer content = answer(kScript, StopScope::kContent);
  CHECK(content.text == "<think>no STOP here</think>yes ");
  CHECK(content.outcome == "stop_string");
  CHECK(content.reasoning == ReasoningMarkers{"<think>", "</think>", false});
}

TEST_CASE("a stop of the reasoning or of both ends the reasoning", "[engine]") {
  CHECK(answer(kScript, StopScope::kReasoning).text == "<think>no ");
  CHECK(answer(kScript, StopScope::kBoth).text == "<think>no ");
  CHECK(answer("<think>no</think>yes STOP on", StopScope::kReasoning).text ==
        "<think>no</think>yes STOP on");
}

TEST_CASE("reasoning that the template opened is reasoning from the first token on", "[engine]") {
  const Answer opened = answer("no STOP here</think>yes STOP never", StopScope::kContent, true);
  CHECK(opened.text == "no STOP here</think>yes ");
  CHECK(opened.reasoning == ReasoningMarkers{"<think>", "</think>", true});
}
