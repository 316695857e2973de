// sluice tokenize: text to token ids, one JSON object a line.
#include <iostream>
#include <memory>

#include "app/commands.hpp"
#include "app/json_lines.hpp"
#include "app/tokenizer_options.hpp"

namespace sluice::app {
namespace {

int tokenize(const TokenizerChoice& options) {
  const auto tokenizer = options.open();
  return answer_lines(std::cin, std::cout, [&](std::string_view json, JsonWriter& answer) {
    const LineObject line(json);
    const EncodeOptions encode = {.add_special = line.flag("add_special_tokens", false),
                                  .parse_special = line.flag("parse_special", false)};
    answer.key("ids").begin_array();
    for (const TokenId id : tokenizer->encode(line.text("text"), encode)) answer.value(id);
    answer.end_array();
  });
}

}  // namespace

void add_tokenize_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<TokenizerChoice>();
  CLI::App* command = program.add_subcommand("tokenize", "Turn text into token ids, line by line");
  options->add_to(*command);
  command->footer(
      "Reads one JSON object a line from stdin and writes one a line to stdout:\n"
      "  {\"text\", \"add_special_tokens\", \"parse_special\"}  ->  {\"ids\"}\n"
      "  add_special_tokens  put the model's start and end tokens around; default false\n"
      "  parse_special       special tokens written in the text become tokens; default false\n"
      "A line that can't be answered gives {\"error\"}; the next one is read all the same.\n"
      "What is not UTF-8 in the input, and half a surrogate pair, is read as U+FFFD.\n\nExample:\n"
      "  echo '{\"text\":\"Hello\"}' | sluice tokenize model.gguf");
  command->callback([options, &action] { action = [options] { return tokenize(*options); }; });
}

}  // namespace sluice::app
