// A stop rule of your own as a function: ends a story after so many sentences.
//
//   stop_function MODEL "Once upon a time" 3
#include <cstdio>
#include <cstdlib>
#include <future>
#include <optional>
#include <sluice/engine.hpp>
#include <string>
#include <string_view>

namespace {

bool ends_sentence(char c) {
  return c == '.' || c == '!' || c == '?';
}

/// Where the sentence number `count` ends in `text`; empty: it has fewer. A run of marks ("...")
/// counts once, and so does what comes behind it only when something else has come.
std::optional<std::size_t> end_of_sentence(std::string_view text, int count) {
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (!ends_sentence(text[i]) || ends_sentence(text[i + 1])) continue;
    if (--count == 0) return i + 1;
  }
  return std::nullopt;
}

/// Asked after every token, with all text so far. It only looks: what it says is done by the
/// engine, which cuts the text exactly where the rule wants it.
sluice::CustomStop stop_after_sentences(int count) {
  return [count](const sluice::StopView& view) -> std::optional<sluice::CustomEnd> {
    const auto end = end_of_sentence(view.text, count);
    if (!end) return std::nullopt;
    return sluice::CustomEnd(std::to_string(count) + " sentences", *end);
  };
}

bool print(const sluice::Event& event) {
  if (const auto* token = std::get_if<sluice::TokenEvent>(&event)) {
    std::fwrite(token->text.data(), 1, token->text.size(), stdout);
    std::fflush(stdout);
  } else if (const auto* done = std::get_if<sluice::DoneEvent>(&event)) {
    std::printf("\n[%s: %s, %d tokens]\n", std::string(name(done->rule)).c_str(),
                done->matched.c_str(), done->usage.completion_tokens);
  } else if (const auto* error = std::get_if<sluice::ErrorEvent>(&event)) {
    std::fprintf(stderr, "%s\n", error->message.c_str());
  }
  return sluice::is_terminal(event);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || std::atoi(argv[3]) < 1) {
    std::fprintf(stderr, "usage: stop_function MODEL PROMPT SENTENCES\n");
    return 2;
  }
  try {
    sluice::Config config;
    config.model = argv[1];
    config.sequences = 1;
    std::promise<void> finished;
    sluice::Engine engine{config};

    sluice::Request request;
    request.input = argv[2];
    request.sampling.temperature = 0.0F;
    request.stop.max_new_tokens = 200;
    request.stop.custom = stop_after_sentences(std::atoi(argv[3]));
    engine.generate(std::move(request), [&finished](const sluice::Event& event) {
      if (print(event)) finished.set_value();
    });
    finished.get_future().wait();
    return 0;
  } catch (const sluice::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
