// One function a command: it adds its options to the program and sets what will run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace sluice::app {

/// What the chosen command does once all arguments are parsed; returns the exit code, throws
/// Error for everything a user can mend.
using Action = std::function<int()>;

/// `arguments` are the program's, for reading its configuration again.
void add_serve_command(CLI::App& program, Action& action, std::vector<std::string> arguments);
void add_key_command(CLI::App& program, Action& action);
void add_chat_command(CLI::App& program, Action& action);
void add_generate_command(CLI::App& program, Action& action);
void add_plan_command(CLI::App& program, Action& action);
void add_calibrate_keys_command(CLI::App& program, Action& action);
void add_perplexity_command(CLI::App& program, Action& action);
void add_inspect_command(CLI::App& program, Action& action);
void add_logits_command(CLI::App& program, Action& action);
void add_tokenize_command(CLI::App& program, Action& action);
void add_detokenize_command(CLI::App& program, Action& action);
void add_render_command(CLI::App& program, Action& action);
void add_bench_command(CLI::App& program, Action& action);
void add_quantize_command(CLI::App& program, Action& action);

}  // namespace sluice::app
