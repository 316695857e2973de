// Embeds the engine with a callback: prints a continuation as it is generated.
//
//   callback model.gguf "Once upon a time"
#include <cstdio>
#include <future>
#include <sluice/engine.hpp>
#include <string>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: callback MODEL PROMPT\n");
    return 2;
  }
  try {
    sluice::Config config;
    config.model = argv[1];
    config.sequences = 1;
    // Nothing is allocated yet, so this is the moment to look.
    std::fprintf(stderr, "%s", sluice::plan(config).table.c_str());

    // Declared before the engine: its handler may be called until the engine has gone.
    std::promise<bool> finished;
    sluice::Engine engine{config};

    sluice::Request request;
    request.input = argv[2];
    request.sampling.temperature = 0.0F;
    request.stop.max_new_tokens = 64;

    // The handler runs on a thread of the engine: hand things over, never block there.
    engine.generate(std::move(request), [&finished](const sluice::Event& event) {
      if (const auto* token = std::get_if<sluice::TokenEvent>(&event)) {
        std::fwrite(token->text.data(), 1, token->text.size(), stdout);
        std::fflush(stdout);
      } else if (const auto* done = std::get_if<sluice::DoneEvent>(&event)) {
        std::fprintf(stderr, "\nended by %s\n", std::string(name(done->rule)).c_str());
        finished.set_value(true);
      } else if (const auto* error = std::get_if<sluice::ErrorEvent>(&event)) {
        std::fprintf(stderr, "%s\n", error->message.c_str());
        finished.set_value(false);
      }
    });
    return finished.get_future().get() ? 0 : 1;
  } catch (const sluice::Error& error) {
    std::fprintf(stderr, "%s: %s\n", to_string(error.code()).c_str(), error.what());
    return 1;
  }
}
