// sluice logits: token ids to logits, one JSON object a line.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "app/commands.hpp"
#include "app/engine_options.hpp"
#include "app/json_lines.hpp"
#include "engine/backend/cpu_backend.hpp"
#include "engine/backend/weight_packer.hpp"
#include "engine/base/error.hpp"
#include "engine/kv/memory_plan.hpp"
#include "engine/model/encoder_config.hpp"

namespace sluice::app {
namespace {

struct Options {
  EngineOptions engine;
  bool step = false;
  bool fast = false;
};

/// One model with room for one sequence; every case starts at position 0 again.
class LogitsRunner {
 public:
  LogitsRunner(const EngineConfig& engine, bool step, bool fast) {
    const auto source = open_model(engine.model);
    ModelConfig model = read_model_config(*source);
    PlanRequest request = engine.plan;
    request.sequences = 1;
    request.threads = engine.threads;
    const MemoryPlan plan = make_plan(model, resident_weights_bytes(*source, !fast), request);
    context_ = model.context_in_use = plan.context;
    vocab_size_ = static_cast<std::size_t>(model.vocab_size);
    max_input_ = longest_input(model, request.max_batch_tokens, context_);
    chunk_ = step ? 1 : static_cast<std::size_t>(request.max_batch_tokens);

    CpuBackendOptions options;
    options.threads = engine.threads;
    options.precise = !fast;
    options.kv_type_k = request.kv_type_k;
    options.kv_type_v = request.kv_type_v;
    options.kv_layers = request.kv_layers;
    options.max_batch_tokens = request.max_batch_tokens;
    backend_ = std::make_unique<CpuBackend>(source, model, options);
    backend_->allocate_pool({plan.num_blocks, plan.block_size});
    table_.resize(static_cast<std::size_t>(plan.num_blocks));
    std::iota(table_.begin(), table_.end(), 0);
  }

  void answer(const LineObject& line, JsonWriter& json) const {
    const std::vector<TokenId> input = read_input(line);
    const std::vector<TokenId> tokens = line.ids("tokens");
    if (tokens.empty()) fail("The member \"tokens\" is empty; logits need at least one token.");
    if (input.size() + tokens.size() > static_cast<std::size_t>(context_))
      fail(fmt::format("{} tokens are more than the context of {}; use a larger --context.",
                       input.size() + tokens.size(), context_));
    std::vector<std::int32_t> positions{static_cast<std::int32_t>(tokens.size()) - 1};
    if (line.find("positions")) positions = line.ids("positions");
    for (const std::int32_t position : positions)
      if (position < 0 || static_cast<std::size_t>(position) >= tokens.size())
        fail(fmt::format("The position {} is not one of the {} tokens.", position, tokens.size()));
    write(positions, run(input, tokens, positions), json);
  }

 private:
  using Rows = std::vector<std::pair<std::int32_t, std::vector<float>>>;

  [[noreturn]] static void fail(const std::string& what) {
    throw Error(ErrorCode::kInvalidArgument, what);
  }

  /// The encoder's input; empty for a model without one.
  std::vector<TokenId> read_input(const LineObject& line) const {
    if (max_input_ == 0) {
      if (line.find("encoder_tokens"))
        fail("The model has no encoder; leave the member \"encoder_tokens\" out.");
      return {};
    }
    std::vector<TokenId> input = line.ids("encoder_tokens");
    if (input.empty() || input.size() > static_cast<std::size_t>(max_input_))
      fail(fmt::format("The member \"encoder_tokens\" has {} tokens; the encoder takes 1 to {}.",
                       input.size(), max_input_));
    return input;
  }

  /// The part [begin, end) of the tokens; the first brings the encoder's input along.
  StepSlice make_slice(const std::vector<TokenId>& input, const std::vector<TokenId>& tokens,
                       std::size_t begin, std::size_t end) const {
    StepSlice slice;
    slice.encoder_positions = static_cast<Position>(input.size());
    if (begin == 0) slice.tokens = slice.encoder_input = input;
    slice.first_position = begin == 0 ? 0 : static_cast<Position>(input.size() + begin);
    slice.tokens.insert(slice.tokens.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                        tokens.begin() + static_cast<std::ptrdiff_t>(end));
    slice.blocks = table_;
    return slice;
  }

  /// Logits of the wanted positions, each once, in ascending order.
  Rows run(const std::vector<TokenId>& input, const std::vector<TokenId>& tokens,
           const std::vector<std::int32_t>& positions) const {
    std::vector<std::int32_t> wanted = positions;
    std::ranges::sort(wanted);
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    Rows rows;
    auto next = wanted.begin();
    for (std::size_t begin = 0; begin < tokens.size(); begin += chunk_) {
      const std::size_t end = std::min(begin + chunk_, tokens.size());
      StepSlice slice = make_slice(input, tokens, begin, end);
      std::vector<std::size_t> in_chunk;
      const auto first = next;
      for (; next != wanted.end() && static_cast<std::size_t>(*next) < end; ++next)
        in_chunk.push_back(static_cast<std::size_t>(*next) - begin);
      const std::vector<float> logits = backend_->logits({0, {std::move(slice)}}, in_chunk);
      for (std::size_t i = 0; i < in_chunk.size(); ++i) {
        const auto from = logits.begin() + static_cast<std::ptrdiff_t>(i * vocab_size_);
        rows.emplace_back(
            first[static_cast<std::ptrdiff_t>(i)],
            std::vector<float>(from, from + static_cast<std::ptrdiff_t>(vocab_size_)));
      }
    }
    return rows;
  }

  static void write(const std::vector<std::int32_t>& positions, const Rows& rows,
                    JsonWriter& json) {
    json.key("logits").begin_array();
    for (const std::int32_t position : positions) {
      const auto row = std::ranges::lower_bound(rows, position, {}, &Rows::value_type::first);
      json.begin_array();
      for (const float logit : row->second) json.value(logit);
      json.end_array();
    }
    json.end_array();
  }

  std::unique_ptr<CpuBackend> backend_;
  Position context_ = 0;
  Position max_input_ = 0;  ///< of the encoder; 0: there is none
  std::size_t vocab_size_ = 0;
  std::size_t chunk_ = 1;
  std::vector<BlockId> table_;
};

int logits(const Options& options) {
  const LogitsRunner runner(options.engine.finish(), options.step, options.fast);
  return answer_lines(std::cin, std::cout, [&](std::string_view json, JsonWriter& answer) {
    runner.answer(LineObject(json), answer);
  });
}

}  // namespace

void add_logits_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("logits", "Turn token ids into logits, line by line");
  options->engine.add_to(*command, EngineUse::kSingle, true);
  command->add_flag("--fast", options->fast,
                    "Round activations to 8 bits, as serve does without --precise");
  command->add_flag("--step", options->step,
                    "Feed one token at a time instead of --token-budget at once");
  command->footer(
      "Reads one JSON object a line from stdin and writes one a line to stdout:\n"
      "  {\"tokens\", \"positions\"}  ->  {\"logits\"}\n"
      "  positions  whose logits are wanted, counted from 0; default: the last one\n"
      "A model with an encoder needs the encoder's input as well, {\"encoder_tokens\"}; its "
      "\"tokens\"\n"
      "are what the decoder reads, beginning with its start token (sluice inspect shows it).\n"
      "Each line is a sequence of its own. Numbers are written so that they read back as the same\n"
      "floats; not a number is null. A line that can't be answered gives {\"error\"}.\n\n"
      "Example:\n"
      "  echo '{\"tokens\":[1,2,3],\"positions\":[0,2]}' | sluice logits model.gguf --kv-type f32");
  command->callback([options, &action] { action = [options] { return logits(*options); }; });
}

}  // namespace sluice::app
