// A stop rule of your own as an actor: one actor watches several streams at once and ends all of
// them when, together, they have written so many words. The engine itself is used with callbacks.
//
//   stop_actor MODEL 60
#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <list>
#include <sluice/caf.hpp>
#include <string>

namespace {

/// Runs in the program's own actor system. It may take its time: until it has answered, the
/// words in question are not shown, and no other stream waits.
class WordBudget final : public sluice::StopRuleRef::base {
 public:
  WordBudget(caf::actor_config& config, int words)
      : typed_event_based_actor(config), words_left_(words) {}

 protected:
  behavior_type make_behavior() override {
    return {
        [this](sluice::judge_atom, const sluice::StopQuestion& question) {
          return judge(question);
        },
        [](sluice::over_atom, sluice::StreamId stream) {
          std::printf("[the rule knows: stream %llu is over]\n",
                      static_cast<unsigned long long>(stream));
        },
    };
  }

 private:
  /// A question has the tokens that came since the last one, at least one.
  sluice::StopAnswer judge(const sluice::StopQuestion& question) {
    for (std::size_t i = 0; i < question.tokens.size(); ++i) {
      for (const char c : question.tokens[i].text) {
        if (std::isspace(static_cast<unsigned char>(c)) != 0) --words_left_;
      }
      if (words_left_ <= 0) return sluice::StopAnswer::stop(i, {"the words are used up"});
    }
    return sluice::StopAnswer::go_on();
  }

  int words_left_;
};

struct Story {
  std::string text;
  std::promise<std::string> ending;

  void on_event(const sluice::Event& event) {
    if (const auto* token = std::get_if<sluice::TokenEvent>(&event)) text += token->text;
    if (const auto* done = std::get_if<sluice::DoneEvent>(&event)) {
      ending.set_value(std::string(name(done->rule)) + ": " + done->matched);
    } else if (const auto* error = std::get_if<sluice::ErrorEvent>(&event)) {
      ending.set_value(error->message);
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: stop_actor MODEL WORDS\n");
    return 2;
  }
  try {
    // Declared first, so that it goes last: the judge's actor lives in it.
    caf::actor_system_config actors;
    caf::actor_system system(actors);
    const sluice::StopRuleRef rule = system.spawn<WordBudget>(std::atoi(argv[2]));

    std::list<Story> stories;
    sluice::Config config;
    config.model = argv[1];
    sluice::Engine engine{config};
    const auto judge = sluice::make_stop_judge(rule);
    for (const char* prompt : {"Once upon a time", "The little dog", "One day"}) {
      Story& story = stories.emplace_back();
      sluice::Request request;
      request.input = prompt;
      request.stop.max_new_tokens = 200;
      request.stop.judge.judge = judge;
      engine.generate(std::move(request),
                      [&story](const sluice::Event& event) { story.on_event(event); });
    }
    for (Story& story : stories) {
      const std::string ending = story.ending.get_future().get();
      std::printf("%s\n[%s]\n", story.text.c_str(), ending.c_str());
    }
    engine.shutdown(std::chrono::seconds(1));
    caf::anon_send_exit(rule, caf::exit_reason::user_shutdown);
    return 0;
  } catch (const sluice::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
