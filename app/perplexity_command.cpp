// sluice perplexity: how well a model predicts a text, and what a KV type or other weights cost.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "actors/engine.hpp"
#include "app/cli.hpp"
#include "app/commands.hpp"
#include "app/interrupt.hpp"
#include "app/kv_options.hpp"
#include "app/long_context_options.hpp"
#include "engine/backend/cpu_backend.hpp"
#include "engine/base/error.hpp"
#include "engine/base/json_writer.hpp"
#include "engine/evaluate/perplexity.hpp"

namespace sluice::app {
namespace {

struct Options {
  std::filesystem::path model;
  std::filesystem::path text;
  KvOptions kv;
  LongContextOptions long_context;
  std::string against = "f16";
  std::filesystem::path against_model;
  PerplexityOptions evaluation;
  std::int32_t threads = 0;
  bool precise = false;
  bool json = false;
};

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path))
    throw Error(ErrorCode::kNotFound, "Cannot read the text file " + path.string() + ".");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// One side of the comparison.
struct Side {
  std::shared_ptr<const ModelSource> source;
  ModelConfig config;
  std::string kv;  ///< how its KV is stored, for people
  std::unique_ptr<TokenModel> model;
};

Side make_side(const std::filesystem::path& path, const KvTypes& kv,
               const LongContextOptions& long_context, const Options& options) {
  Side side;
  side.source = open_model(path);
  side.config = read_model_config(*side.source);
  if (options.evaluation.context > side.config.context_length)
    std::fprintf(stderr,
                 "The windows of %d tokens are longer than the %d that the model was made for: its "
                 "predictions get worse, whatever else is set.\n",
                 options.evaluation.context, side.config.context_length);
  CpuBackendOptions backend;
  backend.threads = options.threads;
  backend.precise = options.precise;
  backend.kv_type_k = kv.type_k;
  backend.kv_type_v = kv.type_v;
  backend.kv_layers = kv.layers;
  backend.sparse = long_context.sparse;
  backend.key_basis = long_context.load_basis();
  backend.key_rank = long_context.key_rank;
  side.kv = describe(kv) + long_context.describe();
  side.model = make_token_model(side.source, side.config, backend, options.evaluation.context);
  return side;
}

/// The start token where the model's own encoder puts one.
TokenId start_token(const Tokenizer& tokenizer) {
  const auto ids = tokenizer.encode("a", {.add_special = true});
  return !ids.empty() && tokenizer.bos() >= 0 && ids[0] == tokenizer.bos() ? ids[0] : -1;
}

PerplexityProgress progress_line(const InterruptCounter& interrupts) {
  return [&interrupts, terminal = isatty(STDERR_FILENO) != 0](std::int64_t done, std::int64_t all,
                                                              const PerplexityResult& so_far) {
    const bool last = done == all;
    if (terminal) {
      std::fprintf(stderr, "\rwindow %lld of %lld, perplexity %.4f%s", static_cast<long long>(done),
                   static_cast<long long>(all), so_far.score.perplexity(), last ? "\n" : "");
    } else if (last || done % 10 == 0) {
      std::fprintf(stderr, "window %lld of %lld, perplexity %.4f\n", static_cast<long long>(done),
                   static_cast<long long>(all), so_far.score.perplexity());
    }
    return interrupts.interrupts() == 0 && !interrupts.terminated();
  };
}

void print_score(const char* label, const Side& side, const TokenScore& score,
                 const EvaluationCost& cost) {
  fmt::print(
      "  {:<10} perplexity {:.4f} +- {:.4f}, loss {:.5f} nats; KV {}, {} a window; {} "
      "positions, {:.0f} a second\n",
      label, score.perplexity(), score.standard_error(), score.loss(), side.kv,
      format_bytes(side.model->kv_bytes()), cost.positions, cost.positions_per_second());
}

void print_report(const Side& side, const Side* baseline, const PerplexityResult& result,
                  const Options& options) {
  fmt::print(
      "{} tokens scored in {} windows of {} ({})\n", result.score.count(), result.windows,
      options.evaluation.context,
      options.evaluation.recompute ? "every token recomputes the window before it" : "incremental");
  print_score("model", side, result.score, result.cost);
  if (baseline == nullptr) return;
  print_score("against", *baseline, *result.baseline_score, *result.baseline_cost);
  fmt::print(
      "  KL divergence {:.6f} nats on average, {:.4f} at most; same likeliest token in "
      "{:.2f} %\n",
      result.divergence->mean_kl(), result.divergence->kl_max,
      100.0 * result.divergence->top1_agreement());
}

void write_side(JsonWriter& json, const Side& side, const TokenScore& score,
                const EvaluationCost& cost) {
  json.begin_object()
      .field("model", side.source->path().string())
      .field("kv", side.kv)
      .field("kv_bytes", side.model->kv_bytes())
      .field("perplexity", score.perplexity())
      .field("standard_error", score.standard_error())
      .field("loss", score.loss())
      .field("positions", cost.positions)
      .field("seconds", std::chrono::duration<double>(cost.time).count())
      .field("positions_per_second", cost.positions_per_second())
      .end_object();
}

void print_json(const Side& side, const Side* baseline, const PerplexityResult& result,
                const Options& options) {
  JsonWriter json;
  json.begin_object()
      .field("context", options.evaluation.context)
      .field("recompute", options.evaluation.recompute)
      .field("windows", result.windows)
      .field("tokens", result.score.count());
  json.key("model");
  write_side(json, side, result.score, result.cost);
  if (baseline != nullptr) {
    json.key("against");
    write_side(json, *baseline, *result.baseline_score, *result.baseline_cost);
    json.field("mean_kl", result.divergence->mean_kl())
        .field("max_kl", result.divergence->kl_max)
        .field("top1_agreement", result.divergence->top1_agreement());
  }
  json.end_object();
  fmt::print("{}\n", json.str());
}

int perplexity(Options options) {
  const InterruptCounter interrupts;
  const std::string text = read_text(options.text);
  KvTypes kv = options.kv.finish();
  Side side = make_side(options.model, kv, options.long_context, options);
  const auto tokenizer = make_tokenizer(*side.source);
  const std::vector<TokenId> tokens = tokenizer->encode(text, {});
  options.evaluation.first_token = start_token(*tokenizer);

  std::optional<Side> baseline;
  if (options.against != "none") {
    KvTypes plain;
    std::tie(plain.type_k, plain.type_v) = parse_kv_types(options.against, "--against");
    const auto& path = options.against_model.empty() ? options.model : options.against_model;
    baseline = make_side(path, plain, {}, options);
    if (make_tokenizer(*baseline->source)->encode(text, {}) != tokens)
      throw Error(ErrorCode::kInvalidArgument,
                  "The model of --against-model cuts the text into other tokens, so the two can't "
                  "be compared position by position; measure each with --against none.");
  }
  const PerplexityResult result =
      measure_perplexity(*side.model, baseline ? baseline->model.get() : nullptr, tokens,
                         options.evaluation, progress_line(interrupts));
  const Side* other = baseline ? &*baseline : nullptr;
  if (options.json)
    print_json(side, other, result, options);
  else
    print_report(side, other, result, options);
  return kOk;
}

}  // namespace

void add_perplexity_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "perplexity", "Measure how well a model predicts a text, and what its settings cost");
  command->add_option("MODEL,-m,--model", options->model, "Model file")->required();
  command->add_option("FILE", options->text, "Text to predict")->required();
  command
      ->add_option("--against", options->against,
                   "KV types of the baseline, e.g. f32 or q8_0/f16 (K/V); none: no baseline")
      ->capture_default_str();
  command->add_option("--against-model", options->against_model,
                      "Model of the baseline, with the same vocabulary: what do other weights "
                      "cost? Default: the same model");
  PerplexityOptions& evaluation = options->evaluation;
  const std::string group = "Windows";
  command->add_option("--context", evaluation.context, "Tokens in a window")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 24))
      ->group(group);
  command
      ->add_option("--stride", evaluation.stride,
                   "Tokens from one window to the next. Default: half the context")
      ->check(CLI::Range(1, 1 << 24))
      ->group(group);
  command
      ->add_option("--skip", evaluation.skip,
                   "Tokens of a window that are context only. Default: context minus stride")
      ->check(CLI::Range(1, 1 << 24))
      ->group(group);
  command
      ->add_option("--max-tokens", evaluation.max_scored,
                   "Stop after so many scored tokens. Default: the whole text")
      ->check(CLI::Range(1, 1 << 30))
      ->group(group);
  command
      ->add_option("--chunk", evaluation.chunk,
                   "Tokens fed at a time; 1 is how generation feeds them. Changes no digit")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 16))
      ->group(group);
  command
      ->add_flag("--recompute", evaluation.recompute,
                 "Compute each window anew for every token instead of using the KV cache, to see "
                 "what the cache saves. Changes no digit")
      ->group(group);
  options->kv.add_to(*command, "KV cache");
  options->long_context.add_to(*command, "Long contexts");
  command->add_flag("--precise", options->precise,
                    "Compute with activations in f32 instead of 8 bits");
  command
      ->add_option("--threads", options->threads, "Compute threads. Default: one per physical core")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->footer(
      "Progress is on stderr, the result on stdout.\n\nExamples:\n"
      "  sluice perplexity model.gguf text.txt --kv-type q8_0\n"
      "  sluice perplexity model.gguf text.txt --kv-type q4_0 --kv-type-layer 0-1=f16\n"
      "  sluice perplexity small.gguf text.txt --against-model large.gguf\n"
      "  sluice perplexity model.gguf text.txt --recompute --max-tokens 256\n"
      "  sluice perplexity model.gguf text.txt --attention-window 128 --attention-stride 8");
  command->callback([options, &action] { action = [options] { return perplexity(*options); }; });
}

}  // namespace sluice::app
