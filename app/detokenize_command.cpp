// sluice detokenize: token ids to text, one JSON object a line.
#include <iostream>
#include <memory>

#include "app/commands.hpp"
#include "app/json_lines.hpp"
#include "app/tokenizer_options.hpp"

namespace sluice::app {
namespace {

int detokenize(const TokenizerChoice& options) {
  const auto tokenizer = options.open();
  return answer_lines(std::cin, std::cout, [&](std::string_view json, JsonWriter& answer) {
    const LineObject line(json);
    const std::vector<TokenId> ids = line.ids("ids");
    answer.field("text", tokenizer->decode(ids, line.flag("skip_special_tokens", false)));
  });
}

}  // namespace

void add_detokenize_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<TokenizerChoice>();
  CLI::App* command =
      program.add_subcommand("detokenize", "Turn token ids into text, line by line");
  options->add_to(*command);
  command->footer(
      "Reads one JSON object a line from stdin and writes one a line to stdout:\n"
      "  {\"ids\", \"skip_special_tokens\"}  ->  {\"text\"}\n"
      "  skip_special_tokens  leave out start, end and other special tokens; default false\n"
      "Ids outside of the vocabulary add nothing. Bytes that make no whole code point are shown\n"
      "as U+FFFD. A line that can't be answered gives {\"error\"}.\n\nExample:\n"
      "  echo '{\"ids\":[1,2,3]}' | sluice detokenize model.gguf");
  command->callback([options, &action] { action = [options] { return detokenize(*options); }; });
}

}  // namespace sluice::app
