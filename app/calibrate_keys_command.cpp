// sluice calibrate-keys: the directions along which a model's keys differ, for
// --key-rank.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "app/cli.hpp"
#include "app/commands.hpp"
#include "app/interrupt.hpp"
#include "engine/base/error.hpp"
#include "engine/evaluate/key_calibration.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace sluice::app {
namespace {

struct Options {
  std::filesystem::path model;
  std::filesystem::path text;
  std::filesystem::path out;
  CalibrationOptions calibration;
};

int calibrate(const Options& options) {
  std::ifstream file(options.text, std::ios::binary);
  if (!file || std::filesystem::is_directory(options.text))
    throw Error(ErrorCode::kNotFound, "Cannot read the text file " + options.text.string() + ".");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto source = open_model(options.model);
  const ModelConfig config = read_model_config(*source);
  const std::vector<TokenId> tokens = make_tokenizer(*source)->encode(text, {});
  const InterruptCounter interrupts;
  bool cut = false;
  const KeyBasis basis = calibrate_keys(
      source, config, tokens, options.calibration, [&](std::int64_t done, std::int64_t all) {
        std::fprintf(stderr, "%lld of %lld tokens\n", static_cast<long long>(done),
                     static_cast<long long>(all));
        cut = interrupts.interrupts() > 0 || interrupts.terminated();
        return !cut;
      });
  if (cut) throw Error(ErrorCode::kIo, "Interrupted: nothing was written.");
  write_key_basis(basis, options.out);
  fmt::print("{}: {} layers, {} KV heads of {} elements\n", options.out.string(), basis.num_layers,
             basis.num_kv_heads, basis.head_dim);
  for (std::int32_t rank = basis.head_dim; rank >= 1; rank = rank * 3 / 4)
    fmt::print("  rank {:>4} holds {:.2f} % of the keys' variance\n", rank,
               100.0 * basis.share_of(rank));
  return kOk;
}

}  // namespace

void add_calibrate_keys_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "calibrate-keys", "Find the main directions of a model's keys, for --key-rank");
  command->add_option("MODEL,-m,--model", options->model, "Model file")->required();
  command->add_option("TEXT", options->text, "Text like those the model will read")->required();
  command->add_option("OUT", options->out, "File to write, for --key-basis")->required();
  command->add_option("--context", options->calibration.context, "Tokens in a window")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 16));
  command
      ->add_option("--max-tokens", options->calibration.max_tokens,
                   "Stop after so many. Default: the whole text")
      ->check(CLI::Range(1, 1 << 30));
  command
      ->add_option("--threads", options->calibration.threads,
                   "Compute threads. Default: one per physical core")
      ->check(CLI::Range(1, 1024));
  command->footer(
      "An experiment for long contexts.\n\nExample:\n"
      "  sluice calibrate-keys model.gguf text.txt model.keys\n"
      "  sluice perplexity model.gguf other.txt --key-basis "
      "model.keys --key-rank 64");
  command->callback([options, &action] { action = [options] { return calibrate(*options); }; });
}

}  // namespace sluice::app
