// The arguments of the commands that need a model's tokenizer and nothing else of it.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "engine/tokenizer/tokenizer.hpp"

namespace sluice::app {

struct TokenizerChoice {
  std::filesystem::path model;
  TokenizerOptions options;

  /// Adds MODEL and the options. `this` must outlive the parsing.
  void add_to(CLI::App& command);
  /// Opens it; what is doubtful about it is said on stderr. Throws Error.
  std::shared_ptr<const Tokenizer> open() const;
};

/// Adds --allow-unknown-pretokenizer.
void add_unknown_pre_tokenizer_flag(CLI::App& command, TokenizerOptions& options);

}  // namespace sluice::app
