// A service of actors with the engine among them, under a supervisor of its own, which starts the
// engine again when it dies. To show that, the program kills the engine after every story.
//
//   caf_service MODEL
#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <cstdio>
#include <sluice/caf.hpp>
#include <string>

namespace {

using engine_atom = caf::atom_constant<caf::atom("engine")>;
using story_atom = caf::atom_constant<caf::atom("story")>;

/// Whoever asks gets the engine that is alive now.
using Supervisor = caf::typed_actor<caf::replies_to<engine_atom>::with<sluice::EngineRef>>;

class EngineSupervisor final : public Supervisor::base {
 public:
  EngineSupervisor(caf::actor_config& settings, sluice::Config config)
      : typed_event_based_actor(settings), config_(std::move(config)) {}

 protected:
  behavior_type make_behavior() override {
    set_down_handler([this](caf::down_msg& down) {
      std::printf("[engine down: %s]\n", sluice::describe(down.reason).c_str());
      if (--starts_left_ > 0) return start();
      quit(down.reason);
    });
    start();
    return {[this](engine_atom) { return engine_; }};
  }
  void on_exit() override { send_exit(engine_, caf::exit_reason::user_shutdown); }

 private:
  void start() {
    engine_ = sluice::spawn_engine(system(), config_);
    monitor(engine_);
  }

  const sluice::Config config_;
  sluice::EngineRef engine_;
  int starts_left_ = 3;
};

/// Answers a prompt with the whole text, when it is complete: the sink of one stream.
using Teller = sluice::SinkRef::extend<
    caf::replies_to<story_atom, sluice::EngineRef, std::string>::with<std::string>>;

class StoryTeller final : public Teller::base {
 public:
  explicit StoryTeller(caf::actor_config& settings) : typed_event_based_actor(settings) {}

 protected:
  behavior_type make_behavior() override {
    return {
        [this](sluice::event_atom, sluice::StreamId, const sluice::Event& event) {
          if (const auto* token = std::get_if<sluice::TokenEvent>(&event)) text_ += token->text;
          if (const auto* error = std::get_if<sluice::ErrorEvent>(&event)) text_ = error->message;
          if (is_terminal(event)) answer_.deliver(std::move(text_));
        },
        [this](story_atom, const sluice::EngineRef& engine, std::string& prompt) {
          answer_ = make_response_promise<std::string>();
          sluice::Request wish;
          wish.input = std::move(prompt);
          wish.stop.max_new_tokens = 40;
          request(engine, caf::infinite, sluice::generate_atom::value, wish, sluice::SinkRef(this))
              .then([](const sluice::StreamRef&) {},
                    [this](caf::error& error) { answer_.deliver(std::move(error)); });
          return answer_;
        },
    };
  }

 private:
  std::string text_;
  caf::typed_response_promise<std::string> answer_;
};

void complain(const caf::error& error) {
  std::fprintf(stderr, "[%s]\n", sluice::describe(error).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: caf_service MODEL\n");
    return 2;
  }
  caf::actor_system_config settings;
  sluice::tune(settings);
  caf::actor_system system(settings);
  sluice::Config config;
  config.model = argv[1];

  const Supervisor supervisor = system.spawn<EngineSupervisor>(config);
  caf::scoped_actor self(system);
  for (const char* prompt : {"Once upon a time", "The little dog"}) {
    std::string story;
    while (story.empty()) {  // a request that meets the engine's end is repeated
      sluice::EngineRef engine;
      self->request(supervisor, caf::infinite, engine_atom::value)
          .receive([&](const sluice::EngineRef& alive) { engine = alive; }, complain);
      if (!engine) return 1;
      const auto teller = self->spawn<StoryTeller>();
      self->request(teller, caf::infinite, story_atom::value, engine, std::string(prompt))
          .receive([&](const std::string& text) { story = prompt + text; }, complain);
      caf::anon_send_exit(teller, caf::exit_reason::user_shutdown);
      caf::anon_send_exit(engine, caf::exit_reason::kill);  // something terrible happens
    }
    std::printf("%s\n", story.c_str());
  }
  caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
}
