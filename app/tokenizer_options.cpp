#include "app/tokenizer_options.hpp"

#include <cstdio>

namespace sluice::app {

void add_unknown_pre_tokenizer_flag(CLI::App& command, TokenizerOptions& options) {
  command.add_flag("--allow-unknown-pretokenizer", options.allow_unknown_pre_tokenizer,
                   "Split text by the default rules where the model asks for rules that this build "
                   "does not know; its tokens may then be wrong");
}

void TokenizerChoice::add_to(CLI::App& command) {
  command
      .add_option("MODEL", model,
                  "GGUF file (its vocabulary is enough), Hugging Face folder, or tokenizer.json")
      ->required();
  add_unknown_pre_tokenizer_flag(command, options);
}

std::shared_ptr<const Tokenizer> TokenizerChoice::open() const {
  auto tokenizer = open_tokenizer(model, options);
  const std::string warning = tokenizer->warning();
  if (!warning.empty()) std::fprintf(stderr, "sluice: warning: %s\n", warning.c_str());
  return tokenizer;
}

}  // namespace sluice::app
