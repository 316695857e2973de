#include "bench/suites/suites.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "bench/suites/life_suites.hpp"

namespace sluice::bench {
namespace {

constexpr Position kPrompt = 16;  ///< positions before a measured decode
constexpr int kSteps = 24;        ///< decode steps of one measurement
constexpr double kMiB = 1024.0 * 1024.0;

std::vector<double> per_second(double amount, const std::vector<double>& seconds) {
  std::vector<double> rates;
  for (const double s : seconds) rates.push_back(amount / s);
  return rates;
}

/// Names the tighter of the two limits of a step and says how near to it the step came.
void set_limit(Figure& figure, const StepCost& cost, double seconds, Arithmetic arithmetic,
               const MachineLimits& limits) {
  const bool bf16 = arithmetic == Arithmetic::kBf16 && limits.bf16_gflops > 0;
  const bool int8 = arithmetic == Arithmetic::kInt8;
  const double peak = int8 ? limits.int8_gops : (bf16 ? limits.bf16_gflops : limits.f32_gflops);
  const double memory = cost.bytes / (limits.read_gbs * 1e9);
  const double compute = cost.operations / (peak * 1e9);
  figure.limit =
      memory > compute ? "memory" : (int8 ? "int8 peak" : (bf16 ? "bf16 peak" : "f32 peak"));
  figure.percent_of_limit = 100.0 * std::max(memory, compute) / seconds;
}

/// Decodes `count` streams that have `context` positions; figures in tokens a second.
Figure decode_figure(BenchEngine& engine, const BenchSettings& settings, LimitProbe& probe,
                     std::size_t count, Position context) {
  const std::vector<double> seconds = repeat(settings.repeats, [&] {
    for (std::size_t i = 0; i < count; ++i) engine.set_length(i, context);
    double sum = 0;
    for (int step = 0; step < kSteps; ++step) sum += engine.decode(count);
    return sum / kSteps;
  });
  Figure figure;
  figure.unit = "tokens/s";
  figure.value = spread_of(per_second(static_cast<double>(count), seconds));
  const double step = spread_of(seconds).median;
  set_limit(figure, engine.cost(count, count, context * static_cast<Position>(count)), step,
            engine.arithmetic(), probe.measure());
  figure.note = fmt::format("{:.2f} ms a step", step * 1e3);
  return figure;
}

std::vector<Figure> run_decode(const BenchSettings& settings, LimitProbe& probe) {
  BenchEngine engine(settings, 1, 256);
  engine.prefill(0, kPrompt);
  Figure figure = decode_figure(engine, settings, probe, 1, kPrompt);
  figure.suite = "decode";
  figure.what = "1 stream";
  return {figure};
}

Figure prefill_figure(BenchEngine& engine, const BenchSettings& settings, LimitProbe& probe,
                      Position n) {
  const std::vector<double> seconds = repeat(settings.repeats, [&] {
    engine.set_length(0, 0);
    return engine.prefill(0, n);
  });
  Figure figure;
  figure.what = fmt::format("prompt of {}", n);
  figure.unit = "tokens/s";
  figure.value = spread_of(per_second(static_cast<double>(n), seconds));
  set_limit(figure, engine.cost(static_cast<std::size_t>(n), 1, 0), spread_of(seconds).median,
            engine.arithmetic(), probe.measure());
  return figure;
}

std::vector<Figure> run_prefill(const BenchSettings& settings, LimitProbe& probe) {
  std::vector<Figure> figures;
  BenchEngine engine(settings, 1, 2048);
  for (const Position n : {128, 512, 2048}) {
    figures.push_back(prefill_figure(engine, settings, probe, n));
    figures.back().suite = "prefill";
  }
  return figures;
}

std::vector<Figure> run_batch(const BenchSettings& settings, LimitProbe& probe) {
  std::vector<Figure> figures;
  for (const std::size_t count : {1U, 2U, 4U, 8U, 16U, 32U}) {
    BenchEngine engine(settings, static_cast<std::int32_t>(count), 64);
    Figure figure = decode_figure(engine, settings, probe, count, kPrompt);
    figure.suite = "batch";
    figure.what = fmt::format("{} stream{}", count, count == 1 ? "" : "s");
    const BackendMemory memory = engine.memory();
    figure.note += fmt::format(
        ", {:.0f} MiB",
        static_cast<double>(memory.weights_bytes + memory.kv_bytes + memory.scratch_bytes) / kMiB);
    figures.push_back(figure);
  }
  return figures;
}

std::vector<Figure> run_context(const BenchSettings& settings, LimitProbe& probe) {
  std::vector<Figure> figures;
  BenchEngine engine(settings, 1, 4096 + 64);
  for (const Position context : {16, 256, 1024, 2048, 4096}) {
    Figure figure = decode_figure(engine, settings, probe, 1, context);
    figure.suite = "context";
    figure.what = fmt::format("after {} positions", context);
    figures.push_back(figure);
  }
  return figures;
}

std::vector<Figure> run_kv(const BenchSettings& settings, LimitProbe& probe) {
  std::vector<Figure> figures;
  for (const char* name : {"f32", "f16", "bf16", "q8_0", "q4_0"}) {
    BenchSettings changed = settings;
    changed.backend.kv_type_k = changed.backend.kv_type_v = *dtype_from_name(name);
    BenchEngine engine(changed, 1, 4096 + 64);
    Figure figure = decode_figure(engine, changed, probe, 1, 4096);
    figure.suite = "kv";
    figure.what = fmt::format("{}, after 4096 positions", name);
    figure.note +=
        fmt::format(", KV {:.1f} MiB", static_cast<double>(engine.memory().kv_bytes) / kMiB);
    figures.push_back(figure);
  }
  return figures;
}

/// The five rows by which engines are compared; see docs/performance.md.
std::vector<Figure> run_compare(const BenchSettings& settings, LimitProbe& probe) {
  std::vector<Figure> figures;
  {
    BenchEngine engine(settings, 1, 512);
    figures.push_back(prefill_figure(engine, settings, probe, 512));
  }
  for (const std::size_t count : {1U, 8U, 32U}) {
    BenchEngine engine(settings, static_cast<std::int32_t>(count), 64);
    figures.push_back(decode_figure(engine, settings, probe, count, kPrompt));
    figures.back().what = fmt::format("decode, {} stream{}", count, count == 1 ? "" : "s");
  }
  BenchEngine engine(settings, 1, 4096 + 64);
  figures.push_back(decode_figure(engine, settings, probe, 1, 4096));
  figures.back().what = "decode after 4096 positions";
  for (Figure& figure : figures) figure.suite = "compare";
  return figures;
}

/// Seconds for 256 new tokens after a prompt of 1024, from the start.
double incremental_seconds(BenchEngine& engine) {
  engine.set_length(0, 0);
  double seconds = engine.prefill(0, 1024);
  for (int i = 0; i < 255; ++i) seconds += engine.decode(1);
  return seconds;
}

/// The same when everything is computed anew for every token: every 32nd is measured and stands
/// for those around it.
double recompute_seconds(BenchEngine& engine) {
  double seconds = 0;
  constexpr Position kEvery = 32;
  for (Position i = kEvery / 2; i < 256; i += kEvery) {
    engine.set_length(0, 0);
    seconds += engine.prefill(0, 1024 + i) * kEvery;
  }
  return seconds;
}

Figure seconds_figure(const char* what, const std::vector<double>& seconds, double tokens) {
  const Spread spread = spread_of(seconds);
  return {{}, what, "s", spread, {}, 0, fmt::format("{:.1f} tokens/s", tokens / spread.median)};
}

std::vector<Figure> run_recompute(const BenchSettings& settings, LimitProbe&) {
  BenchEngine engine(settings, 1, 1024 + 256);
  std::vector<Figure> figures;
  figures.push_back(seconds_figure(
      "KV cache: 1 280 positions computed",
      repeat(std::min(settings.repeats, 3), [&] { return incremental_seconds(engine); }), 256));
  figures.push_back(
      seconds_figure("recomputed: 295 000 positions", {recompute_seconds(engine)}, 256));
  for (Figure& figure : figures) figure.suite = "recompute (prompt 1024, 256 new)";
  return figures;
}

/// The three optimisations, each on top of the one before, in tokens a second of 8 users who want
/// 64 tokens after a prompt of 256.
std::vector<Figure> run_steps(const BenchSettings& settings, LimitProbe&) {
  constexpr std::size_t kUsers = 8;
  constexpr Position kStart = 256;
  constexpr int kNew = 64;
  constexpr double kTokens = static_cast<double>(kUsers) * kNew;
  BenchEngine engine(settings, static_cast<std::int32_t>(kUsers), kStart + kNew);
  std::vector<Figure> figures;
  double seconds = 0;
  for (const Position i : {Position{8}, Position{24}, Position{40}, Position{56}}) {
    engine.set_length(0, 0);
    seconds += engine.prefill(0, kStart + i) * 16;
  }
  figures.push_back(seconds_figure("everything recomputed", {seconds * kUsers}, kTokens));

  const auto one_by_one = [&](BenchEngine& e) {
    double sum = 0;
    for (std::size_t user = 0; user < kUsers; ++user) {
      e.set_length(0, 0);
      sum += e.prefill(0, kStart);
      for (int i = 1; i < kNew; ++i) sum += e.decode(1);
    }
    return sum;
  };
  const auto batched = [&](BenchEngine& e) {
    double sum = 0;
    for (std::size_t user = 0; user < kUsers; ++user) {
      e.set_length(user, 0);
      sum += e.prefill(user, kStart);
    }
    for (int i = 1; i < kNew; ++i) sum += e.decode(kUsers);
    return sum;
  };
  const int repeats = std::min(settings.repeats, 3);
  figures.push_back(seconds_figure("KV cache, one user after the other",
                                   repeat(repeats, [&] { return one_by_one(engine); }), kTokens));
  figures.push_back(seconds_figure("and all users in one batch",
                                   repeat(repeats, [&] { return batched(engine); }), kTokens));
  BenchSettings small = settings;
  small.backend.kv_type_k = small.backend.kv_type_v = DType::kQ8_0;
  BenchEngine quantised(small, static_cast<std::int32_t>(kUsers), kStart + kNew);
  figures.push_back(seconds_figure("and K and V in 8 bits",
                                   repeat(repeats, [&] { return batched(quantised); }), kTokens));
  for (Figure& figure : figures) figure.suite = "steps (8 users, prompt 256, 64 new each)";
  return figures;
}

constexpr std::array<Suite, 10> kSuites = {{
    {"decode", "one stream, short context", run_decode},
    {"prefill", "prompts of 128, 512 and 2048 tokens", run_prefill},
    {"batch", "1 to 32 streams together, with latency and memory", run_batch},
    {"context", "one stream after 16 to 4096 positions", run_context},
    {"kv", "types of the KV cache after 4096 positions", run_kv},
    {"compare", "prompt of 512, 1, 8 and 32 streams, after 4096 positions", run_compare},
    {"recompute", "the KV cache against computing everything anew", run_recompute},
    {"answer", "the 10th and the 1000th token of an answer", run_answer},
    {"start", "from the file to a backend that can step", run_start},
    {"steps", "cache, batch and 8-bit KV, one on top of the other", run_steps},
}};

}  // namespace

std::span<const Suite> suites() {
  return kSuites;
}

const Suite* find_suite(std::string_view name) {
  const auto found = std::ranges::find(kSuites, name, &Suite::name);
  return found == kSuites.end() ? nullptr : &*found;
}

}  // namespace sluice::bench
