// sluice generate: the continuation of a prompt, alone on stdout.
#include <unistd.h>

#include <spdlog/spdlog.h>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "app/commands.hpp"
#include "app/engine_options.hpp"
#include "app/interrupt.hpp"
#include "app/stream_printer.hpp"
#include "engine/base/error.hpp"

namespace sluice::app {
namespace {

struct Options {
  EngineOptions engine;
  SamplingOptions sampling;
  std::string prompt;
  std::filesystem::path prompt_file;
  bool chat = false;
  bool parse_special = false;
  bool stats = false;
};

std::string read_all(std::istream& in) {
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string prompt_text(const Options& options) {
  if (!options.prompt_file.empty()) {
    std::ifstream file(options.prompt_file, std::ios::binary);
    if (!file) {
      throw Error(ErrorCode::kNotFound,
                  "Cannot read the prompt file " + options.prompt_file.string() + ".");
    }
    return read_all(file);
  }
  return options.prompt == "-" ? read_all(std::cin) : options.prompt;
}

void print_stats(const DoneEvent& done) {
  std::fprintf(stderr,
               "%s: rule %s%s%s, prompt %d (cached %d), answer %d tokens, first token %.1f ms, "
               "%.1f tokens/s\n",
               std::string(finish_reason(done.rule)).c_str(), std::string(name(done.rule)).c_str(),
               done.matched.empty() ? "" : " ", done.matched.c_str(), done.usage.prompt_tokens,
               done.usage.cached_tokens, done.usage.completion_tokens,
               static_cast<double>(done.timing.first_token.count()) / 1000.0,
               done.timing.tokens_per_second);
}

int generate(const Options& options) {
  spdlog::set_level(spdlog::level::from_str(options.engine.log_level));
  GenerateRequest request;
  std::string prompt = prompt_text(options);
  if (options.chat) {
    request.input = std::vector<ChatMessage>{{"user", std::move(prompt)}};
  } else {
    request.input = std::move(prompt);
    request.parse_special = options.parse_special;
  }
  options.sampling.apply(request);

  EngineConfig config = options.engine.finish();
  if (config.plan.sequences == 0) config.plan.sequences = 1;
  Engine engine(prepare_engine(config));

  const InterruptCounter interrupts;
  const StreamOutcome outcome = run_stream(
      engine, std::move(request),
      [](std::string_view text) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
      },
      [&] {
        return interrupts.interrupts() > 0 || interrupts.terminated() || std::ferror(stdout);
      });
  // Exactly the continuation for programs; a prompt on its own line for people.
  if (isatty(STDOUT_FILENO) != 0) std::fputc('\n', stdout);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw Error(ErrorCode::kIo, "The output could not be written to stdout.");
  }
  if (outcome.error) throw Error(ErrorCode::kInternal, outcome.error->message);
  if (options.stats) print_stats(*outcome.done);
  return 0;
}

}  // namespace

void add_generate_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  // Scripts want the text alone: warnings still show.
  options->engine.log_level = "warn";
  CLI::App* command = program.add_subcommand(
      "generate", "Print the continuation of a prompt on stdout, for scripts");
  options->engine.add_to(*command, EngineUse::kSingle, false);
  auto* prompt = command->add_option("-p,--prompt", options->prompt,
                                     "The text to continue; - reads it from stdin");
  auto* file = command->add_option("-f,--prompt-file", options->prompt_file,
                                   "Read the text to continue from a file");
  prompt->excludes(file);
  command->add_flag("--chat", options->chat,
                    "Put the prompt into the model's chat template as a user's message");
  command->add_flag("--parse-special", options->parse_special,
                    "Special tokens written in the prompt are parsed");
  command->add_flag("--stats", options->stats, "Print how it went on stderr");
  options->sampling.add_to(*command);
  command->footer(
      "Examples:\n"
      "  sluice generate -m model.gguf -p 'Once upon a time' -n 64 --temperature 0\n"
      "  sluice generate --chat -p 'Who are you?' --seed 7 --stats\n"
      "  cat letter.txt | sluice generate -p - -n 200 --stop $'\\n\\n'");
  command->callback([options, &action, prompt, file] {
    if (prompt->count() == 0 && file->count() == 0) {
      throw CLI::RequiredError("--prompt or --prompt-file");
    }
    action = [options] { return generate(*options); };
  });
}

}  // namespace sluice::app
