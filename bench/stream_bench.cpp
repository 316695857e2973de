// What the way from a token to a frame costs: bytes -> code points -> stop matcher -> pieces ->
// event -> JSON, for one token, with 8 stop strings. The goal is below 1 microsecond.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/stream/pattern_matcher.hpp"
#include "engine/stream/session_machine.hpp"
#include "engine/stream/stop_matcher.hpp"
#include "engine/stream/token_pipeline.hpp"
#include "engine/stream/utf8_accumulator.hpp"
#include "web/event_json.hpp"

namespace {

using namespace sluice;

/// Words, line feeds and split code points, about as a chat model draws them.
const std::vector<std::string>& vocabulary() {
  static const std::vector<std::string> tokens = {
      "Once",  " upon", " a",       " time", ",",    " there",        " was", " a",
      " girl", ".",     "\n",       "She",   " Hu",  "mans",          ":",    " said",
      " \xF0", "\x9F",  "\x98\x80", "```",   "py\n", " Observations", ".\n",  "x"};
  return tokens;
}

class WordTokenizer final : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view, const EncodeOptions&) const override { return {}; }
  std::size_t vocab_size() const override { return vocabulary().size(); }
  std::string_view token_bytes(TokenId id) const override {
    return vocabulary()[static_cast<std::size_t>(id)];
  }
  bool is_special(TokenId) const override { return false; }
  TokenId find_special(std::string_view) const override { return -1; }
  TokenId bos() const override { return -1; }
  std::span<const TokenId> end_tokens() const override { return {}; }
  std::string description() const override { return "words"; }

 protected:
  bool adds_space_prefix() const override { return false; }
};

std::vector<StopString> eight_strings() {
  return {{"\nHuman:"},
          {"\n\n"},
          {"Observation:", StopBoundary::kLineStart},
          {"\n```\n"},
          {"User:", StopBoundary::kLineStart},
          {"</answer>"},
          {"### Instruction"},
          {"<|im_end|>"}};
}

constexpr std::int64_t kTokensInStream = 4096;

TokenId token_at(std::int64_t i) {
  return static_cast<TokenId>(static_cast<std::size_t>(i) % vocabulary().size());
}

void count_tokens(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * kTokensInStream);
  state.counters["per_token"] =
      benchmark::Counter(static_cast<double>(state.iterations() * kTokensInStream),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void accumulator_and_matcher(benchmark::State& state) {
  StopMatcher matcher(eight_strings());
  std::string text;
  for (auto _ : state) {
    Utf8Accumulator accumulator;
    matcher.restart(0);
    for (std::int64_t i = 0; i < kTokensInStream; ++i) {
      text.clear();
      accumulator.append(vocabulary()[static_cast<std::size_t>(token_at(i))], text);
      benchmark::DoNotOptimize(matcher.feed(text));
    }
  }
  count_tokens(state);
}
BENCHMARK(accumulator_and_matcher);

void pipeline(benchmark::State& state) {
  const auto tokenizer = std::make_shared<WordTokenizer>();
  PipelineOptions options;
  options.stop.stop_strings = eight_strings();
  options.limits.max_new_tokens = kTokensInStream + 1;
  std::vector<TokenPiece> pieces;
  for (auto _ : state) {
    TokenPipeline stream(options, tokenizer);
    for (std::int64_t i = 0; i < kTokensInStream; ++i) {
      pieces.clear();
      benchmark::DoNotOptimize(stream.push({token_at(i), -0.5F, 0.6F, {}}, false, pieces));
    }
  }
  count_tokens(state);
}
BENCHMARK(pipeline);

void patterns(benchmark::State& state) {
  PatternMatcher matcher(std::vector<StopPattern>{
      {"^(Human|User):"}, {"\\n```\\s*\\n"}, {"</\\w+>"}, {"\\d{4}-\\d\\d-\\d\\d"}});
  std::string text;
  for (auto _ : state) {
    Utf8Accumulator accumulator;
    matcher.restart(0);
    for (std::int64_t i = 0; i < kTokensInStream; ++i) {
      text.clear();
      accumulator.append(vocabulary()[static_cast<std::size_t>(token_at(i))], text);
      benchmark::DoNotOptimize(matcher.feed(text));
    }
  }
  count_tokens(state);
}
BENCHMARK(patterns);

void session(benchmark::State& state, bool with_json) {
  const auto tokenizer = std::make_shared<WordTokenizer>();
  SessionConfig config;
  config.stop.stop_strings = eight_strings();
  config.max_new_tokens = kTokensInStream + 1;
  const auto now = SessionMachine::Clock::now();
  Publication publication;
  for (auto _ : state) {
    SessionMachine machine(config, tokenizer, now);
    benchmark::DoNotOptimize(machine.start());
    for (std::int64_t i = 0; i < kTokensInStream; ++i) {
      publication.token.id = token_at(i);
      const auto out = machine.on_publications({&publication, 1}, now);
      for (const Event& event : out.events) {
        if (with_json) benchmark::DoNotOptimize(web::event_json("c1", event));
        benchmark::DoNotOptimize(machine.on_delivered(number_of(event)));
      }
    }
  }
  count_tokens(state);
}

void session_machine(benchmark::State& state) {
  session(state, false);
}
BENCHMARK(session_machine);

void session_machine_and_json(benchmark::State& state) {
  session(state, true);
}
BENCHMARK(session_machine_and_json);

}  // namespace

BENCHMARK_MAIN();
