#include "app/cli.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "app/commands.hpp"
#include "app/log_format.hpp"
#include "app/version.hpp"
#include "engine/base/error.hpp"

namespace sluice::app {
namespace {

constexpr const char* kDescription =
    "Sluice streams large language models: tokens appear the moment they exist, none is lost or\n"
    "repeated, and an answer stops exactly where it should.";

constexpr const char* kFooter =
    "Examples:\n"
    "  sluice serve                                 the bundled model at http://127.0.0.1:8080\n"
    "  sluice serve -m qwen.gguf --sequences 8      your own model, room for 8 conversations\n"
    "  sluice chat -m qwen.gguf                     a conversation in this terminal\n"
    "  sluice generate -p 'Once upon a time' -n 64  a continuation on stdout, for scripts\n"
    "  sluice plan qwen.gguf --context 8192         what would it take, before taking anything\n"
    "  sluice tokenize model.gguf < lines.jsonl     texts to token ids, one JSON object a line\n"
    "\n"
    "Exit codes: 0 done, 1 failed (the reason is on stderr), 2 wrong arguments.\n"
    "Options can also come from a TOML file: --config sluice.toml, with a section for each "
    "command:\n"
    "  [serve]\n"
    "  log-level = \"info\"\n"
    "  allow-host = [\"chat.example\"]";

int run_checked(int argc, char** argv) {
  CLI::App program(kDescription, "sluice");
  program.footer(kFooter);
  program.set_version_flag("--version", std::string("sluice ") + kVersion);
  program.set_config("--config", "", "Read options from a TOML file");
  program.allow_config_extras(CLI::config_extras_mode::error);  // a typing error is not an option
  program.require_subcommand(1);
  program.get_formatter()->column_width(34);
  program.failure_message(CLI::FailureMessage::simple);

  Action action;
  add_serve_command(program, action, {argv + 1, argv + argc});
  add_key_command(program, action);
  add_chat_command(program, action);
  add_generate_command(program, action);
  add_plan_command(program, action);
  add_perplexity_command(program, action);
  add_calibrate_keys_command(program, action);
  add_inspect_command(program, action);
  add_bench_command(program, action);
  add_logits_command(program, action);
  add_tokenize_command(program, action);
  add_detokenize_command(program, action);
  add_render_command(program, action);
  add_quantize_command(program, action);

  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version arrive here as well, with exit code 0.
    return program.exit(error) == 0 ? kOk : kUsage;
  }
  log_to_stderr();
  return action();
}

}  // namespace

int run(int argc, char** argv) noexcept {
  try {
    return run_checked(argc, argv);
  } catch (const Error& error) {
    std::fprintf(stderr, "sluice: %s\n", error.what());
    return error.code() == ErrorCode::kInvalidArgument ? kUsage : kFailed;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr,
                 "sluice: The machine has no memory left for this; try a smaller --context, "
                 "--sequences or --memory.\n");
    return kFailed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sluice: Unexpected error: %s\n", error.what());
    return kFailed;
  } catch (...) {
    std::fprintf(stderr, "sluice: Unexpected error of unknown kind.\n");
    return kFailed;
  }
}

}  // namespace sluice::app
