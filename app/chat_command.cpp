// sluice chat: a conversation in the terminal, engine in process.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

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
  std::string system;
};

constexpr const char* kHelp =
    "  /new        forget the conversation\n"
    "  /system T   set the system prompt and forget the conversation\n"
    "  /help       this list\n"
    "  /quit       leave (also Ctrl-D)\n"
    "  Ctrl-C      stop the answer\n";

/// Grey text around the conversation, only where a person reads it.
class Console {
 public:
  explicit Console(bool interactive) : interactive_(interactive) {}

  void note(const std::string& text) const {
    if (interactive_) {
      std::fprintf(stderr, "\033[2m%s\033[0m\n", text.c_str());
    } else {
      std::fprintf(stderr, "%s\n", text.c_str());
    }
  }

  void prompt() const {
    if (interactive_) std::fputs("\033[1m> \033[0m", stdout);
    std::fflush(stdout);
  }

 private:
  bool interactive_;
};

enum class LineResult { kLine, kInterrupted, kEnd };

LineResult read_line(std::string& line, InterruptCounter& interrupts) {
  interrupts.reset();
  if (std::getline(std::cin, line)) return LineResult::kLine;
  if (interrupts.interrupts() > 0 && !interrupts.terminated()) {
    // The signal ended the read, not the input.
    std::cin.clear();
    std::clearerr(stdin);
    return LineResult::kInterrupted;
  }
  return LineResult::kEnd;
}

class Conversation {
 public:
  Conversation(Engine& engine, const Options& options, const Console& console)
      : engine_(engine), options_(options), console_(console) {
    restart(options.system);
  }

  void restart(const std::string& system) {
    messages_.clear();
    if (!system.empty()) messages_.push_back({"system", system});
  }
  void restart() {
    restart(!messages_.empty() && messages_.front().role == "system" ? messages_.front().content
                                                                     : "");
  }

  /// Asks, prints the answer, remembers both. When the conversation has outgrown the context the
  /// oldest turns go first.
  void ask(const std::string& text, InterruptCounter& interrupts) {
    messages_.push_back({"user", text});
    for (;;) {
      interrupts.reset();
      const StreamOutcome outcome = run_once(interrupts);
      if (outcome.done) {
        std::fputs("\n", stdout);
        report(*outcome.done);
        messages_.push_back({"assistant", outcome.text});
        return;
      }
      if (outcome.error->code != "prompt_too_long" || !forget_oldest_turn()) {
        console_.note(outcome.error->message);
        messages_.pop_back();
        return;
      }
      console_.note("(the conversation has outgrown the context; its oldest turn is forgotten)");
    }
  }

 private:
  StreamOutcome run_once(InterruptCounter& interrupts) {
    GenerateRequest request;
    request.input = messages_;
    options_.sampling.apply(request);
    return run_stream(
        engine_, std::move(request),
        [](std::string_view piece) {
          std::fwrite(piece.data(), 1, piece.size(), stdout);
          std::fflush(stdout);
        },
        [&] { return interrupts.interrupts() > 0 || interrupts.terminated(); });
  }

  bool forget_oldest_turn() {
    const std::size_t first = messages_.front().role == "system" ? 1 : 0;
    if (messages_.size() - first < 3) return false;  // only the question itself is left
    messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(first),
                    messages_.begin() + static_cast<std::ptrdiff_t>(first) + 2);
    return true;
  }

  void report(const DoneEvent& done) const {
    char line[256];
    std::snprintf(line, sizeof line, "[%s%s%s, %d tokens, first after %.0f ms, %.0f tokens/s]",
                  std::string(name(done.rule)).c_str(), done.matched.empty() ? "" : " ",
                  done.matched.c_str(), done.usage.completion_tokens,
                  static_cast<double>(done.timing.first_token.count()) / 1000.0,
                  done.timing.tokens_per_second);
    console_.note(line);
  }

  Engine& engine_;
  const Options& options_;
  const Console& console_;
  std::vector<ChatMessage> messages_;
};

int chat(const Options& options) {
  spdlog::set_level(spdlog::level::from_str(options.engine.log_level));
  EngineConfig config = options.engine.finish();
  if (config.plan.sequences == 0) config.plan.sequences = 1;
  Engine engine(prepare_engine(config));

  const Console console(isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0);
  const ServiceInfo& info = engine.info();
  console.note(info.model_name + ", " + info.backend + ", context " +
               std::to_string(info.context_length) + ". /help lists commands.");

  Conversation conversation(engine, options, console);
  InterruptCounter interrupts;
  std::string line;
  for (;;) {
    console.prompt();
    const LineResult result = read_line(line, interrupts);
    if (result == LineResult::kEnd || interrupts.terminated()) break;
    if (result == LineResult::kInterrupted) {
      console.note("\n(Ctrl-D or /quit leaves)");
      continue;
    }
    if (line.empty()) continue;
    if (line == "/quit" || line == "/exit") break;
    if (line == "/help") {
      std::fputs(kHelp, stderr);
    } else if (line == "/new") {
      conversation.restart();
      console.note("(a new conversation)");
    } else if (line.starts_with("/system ")) {
      conversation.restart(line.substr(8));
      console.note("(a new conversation with that system prompt)");
    } else if (line.starts_with("/")) {
      console.note("There is no command " + line + "; /help lists them.");
    } else {
      conversation.ask(line, interrupts);
    }
  }
  return 0;
}

}  // namespace

void add_chat_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  options->engine.log_level = "warn";
  CLI::App* command = program.add_subcommand("chat", "Talk to a model in this terminal");
  options->engine.add_to(*command, EngineUse::kSingle, false);
  command->add_option("--system", options->system, "System prompt");
  options->sampling.add_to(*command);
  command->footer(std::string("In the conversation:\n") + kHelp +
                  "\nExample:\n  sluice chat -m model.gguf --system 'Answer in one sentence.'");
  command->callback([options, &action] { action = [options] { return chat(*options); }; });
}

}  // namespace sluice::app
