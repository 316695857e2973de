// Embeds the engine with a callback: prints a continuation as it is generated.
//
//   callback model.gguf "Once upon a time"
#include <cstdio>
#include <exception>
#include <future>

#include "actors/engine.hpp"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: callback MODEL.gguf PROMPT\n");
    return 2;
  }
  try {
    sluice::EngineConfig config;
    config.model = argv[1];
    config.plan.sequences = 1;

    // Opens the file and plans; nothing is allocated yet, so this is the moment to look.
    sluice::PreparedEngine prepared = sluice::prepare_engine(config);
    std::fprintf(stderr, "%s", sluice::plan_table(prepared.plan, prepared.model_config).c_str());

    sluice::Engine engine(std::move(prepared));

    sluice::GenerateRequest request;
    request.input = std::string(argv[2]);
    request.sampling.temperature = 0.0F;
    request.stop.max_new_tokens = 64;

    // The handler runs on a thread of the engine: hand the result over, never block there.
    std::promise<bool> finished;
    engine.generate(
        std::move(request),
        [&finished](const sluice::Event& event) {
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
        },
        sluice::Delivery::kOnReturn);
    return finished.get_future().get() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
