#include "bench/server/server_suite.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "actors/engine.hpp"
#include "bench/server/stream_client.hpp"
#include "bench/server/watched_backend.hpp"
#include "engine/base/error.hpp"
#include "web/server.hpp"

namespace sluice::bench {
namespace {

constexpr int kPromptTokens = 64;
constexpr int kNewTokens = 64;
constexpr int kNullTokens = 400;  ///< of a stream without a model's work

/// An engine and a server on a free port.
class LiveServer {
 public:
  LiveServer(PreparedEngine prepared, std::shared_ptr<StepWatch> watch)
      : watch_(std::move(watch)), engine_(std::move(prepared)), server_(engine_, any_port()) {
    server_.start();
  }
  std::uint16_t port() const { return server_.port(); }
  StepWatch& watch() { return *watch_; }

 private:
  static web::ServerOptions any_port() {
    web::ServerOptions options;
    options.port = 0;
    return options;
  }
  std::shared_ptr<StepWatch> watch_;
  Engine engine_;
  web::Server server_;
};

PreparedEngine prepared_for(const BenchSettings& settings, std::size_t streams) {
  EngineConfig config;
  config.model = settings.model;
  config.threads = settings.backend.threads;
  config.precise = settings.backend.precise;
  config.plan.sequences = static_cast<std::int32_t>(streams);
  config.plan.context = 512;
  config.prefix_cache = false;
  return prepare_engine(config);
}

LiveServer live_server(const BenchSettings& settings, std::size_t streams, bool null) {
  PreparedEngine prepared = prepared_for(settings, streams);
  auto watch = std::make_shared<StepWatch>();
  auto make = prepared.make_backend;
  if (null) make = [] { return make_null_backend('a'); };
  prepared.make_backend = [make, watch] { return make_watched_backend(make, watch); };
  return {std::move(prepared), watch};
}

/// Frames that ask for streams with prompts that differ from each other.
std::vector<std::string> requests(std::size_t streams, int prompt, int tokens) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < streams; ++i) {
    std::string words;
    for (int word = 0; word < prompt; ++word)
      words += static_cast<char>('a' + (static_cast<int>(i) * 7 + word * 3) % 26);
    texts.push_back(fmt::format(
        R"({{"type":"generate","id":"a","prompt":"{}","max_tokens":{},"ignore_eos":true,"seed":{}}})",
        words, tokens, i + 1));
  }
  return texts;
}

double process_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// One run of all streams, and what it cost.
struct Load {
  ClientRun run;
  StepTimes steps;
  double cpu_seconds = 0;  ///< of the process without the client and the backend
  std::size_t tokens = 0;
  std::size_t messages = 0;
};

Load put_load(LiveServer& server, const std::vector<std::string>& texts) {
  server.watch().reset();
  const double before = process_seconds();
  Load load;
  load.run = run_streams(server.port(), texts);
  load.steps = server.watch().times();
  load.cpu_seconds = process_seconds() - before - load.run.cpu_seconds - load.steps.cpu_seconds;
  for (const StreamRecord& stream : load.run.streams) {
    if (!stream.failure.empty())
      throw Error(ErrorCode::kInternal, fmt::format("A stream failed: {}", stream.failure));
    load.tokens += stream.tokens;
    load.messages += stream.messages;
  }
  return load;
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(share * last + 0.5)];
}

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

std::vector<double> first_token_ms(const Load& load) {
  std::vector<double> values;
  for (const StreamRecord& stream : load.run.streams)
    if (!stream.frames.empty()) values.push_back(milliseconds(stream.frames[0] - stream.asked));
  return values;
}

std::vector<double> between_tokens_ms(const Load& load) {
  std::vector<double> values;
  for (const StreamRecord& stream : load.run.streams)
    for (std::size_t i = 1; i < stream.frames.size(); ++i)
      values.push_back(milliseconds(stream.frames[i] - stream.frames[i - 1]));
  return values;
}

/// Collects one number of every repeat.
class Row {
 public:
  Row(std::string suite, const char* what, const char* unit) {
    figure_.suite = std::move(suite);
    figure_.what = what;
    figure_.unit = unit;
  }
  void add(double value) { values_.push_back(value); }
  Figure figure() {
    figure_.value = spread_of(values_);
    return figure_;
  }

 private:
  Figure figure_;
  std::vector<double> values_;
};

std::vector<Figure> measure_streams(const BenchSettings& settings, std::size_t streams) {
  LiveServer server = live_server(settings, streams, false);
  const std::string suite = fmt::format("server, {} stream{}", streams, streams == 1 ? "" : "s");
  std::vector<Row> rows = {{suite, "first token, median", "ms"},
                           {suite, "first token, p99", "ms"},
                           {suite, "between tokens, median", "ms"},
                           {suite, "between tokens, p99", "ms"},
                           {suite, "throughput", "tokens/s"},
                           {suite, "frames", "frames/s"},
                           {suite, "between two steps", "us"},
                           {suite, "share of it in a step", "%"},
                           {suite, "processor, not kernels", "us/token"}};
  const std::vector<std::string> texts = requests(streams, kPromptTokens, kNewTokens);
  put_load(server, texts);
  for (int i = 0; i < settings.repeats; ++i) {
    const Load load = put_load(server, texts);
    const auto tokens = static_cast<double>(load.tokens);
    const std::vector<double> first = first_token_ms(load);
    const std::vector<double> between = between_tokens_ms(load);
    const auto pairs = static_cast<double>(std::max<std::uint64_t>(load.steps.pairs, 1));
    rows[0].add(percentile(first, 0.5));
    rows[1].add(percentile(first, 0.99));
    rows[2].add(percentile(between, 0.5));
    rows[3].add(percentile(between, 0.99));
    rows[4].add(tokens / load.run.seconds);
    rows[5].add(static_cast<double>(load.messages) / load.run.seconds);
    rows[6].add(load.steps.between_seconds / pairs * 1e6);
    rows[7].add(100.0 * load.steps.between_seconds /
                (load.steps.between_seconds + load.steps.paired_step_seconds));
    rows[8].add(load.cpu_seconds / tokens * 1e6);
  }
  std::vector<Figure> figures;
  for (Row& row : rows) figures.push_back(row.figure());
  return figures;
}

/// GET /health, every few milliseconds, while prompts and answers keep every core busy.
std::vector<Figure> measure_health(const BenchSettings& settings) {
  constexpr std::size_t kStreams = 16;
  LiveServer server = live_server(settings, kStreams, false);
  const std::vector<std::string> texts = requests(kStreams, 256, kNewTokens);
  std::atomic<bool> done{false};
  std::vector<double> times;
  std::thread asking([&] {
    while (!done) {
      times.push_back(time_request(server.port(), "/health") * 1e3);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  for (int i = 0; i < std::max(settings.repeats / 2, 1); ++i) put_load(server, texts);
  done = true;
  asking.join();
  if (std::ranges::any_of(times, [](double ms) { return ms < 0; }))
    throw Error(ErrorCode::kInternal, "A request for /health failed.");
  std::vector<Figure> figures(3);
  const char* names[] = {"median", "p99", "slowest"};
  const double shares[] = {0.5, 0.99, 1.0};
  for (std::size_t i = 0; i < figures.size(); ++i) {
    figures[i].suite = "/health beside 16 streams with prompts of 256";
    figures[i].what = names[i];
    figures[i].unit = "ms";
    const double ms = percentile(times, shares[i]);
    figures[i].value = {ms, ms, ms};
    figures[i].note = fmt::format("{} requests", times.size());
  }
  return figures;
}

/// What the way around the kernels lets through when these take no time.
std::vector<Figure> measure_null(const BenchSettings& settings) {
  constexpr std::size_t kStreams = 32;
  LiveServer server = live_server(settings, kStreams, true);
  const std::string suite = fmt::format("without a model's work, {} streams", kStreams);
  std::vector<Row> rows = {{suite, "throughput", "tokens/s"},
                           {suite, "frames", "frames/s"},
                           {suite, "processor, server alone", "us/token"},
                           {suite, "processor, client", "us/token"}};
  const std::vector<std::string> texts = requests(kStreams, 16, kNullTokens);
  put_load(server, texts);
  for (int i = 0; i < settings.repeats; ++i) {
    const Load load = put_load(server, texts);
    const auto tokens = static_cast<double>(load.tokens);
    rows[0].add(tokens / load.run.seconds);
    rows[1].add(static_cast<double>(load.messages) / load.run.seconds);
    rows[2].add(load.cpu_seconds / tokens * 1e6);
    rows[3].add(load.run.cpu_seconds / tokens * 1e6);
  }
  std::vector<Figure> figures;
  for (Row& row : rows) figures.push_back(row.figure());
  return figures;
}

}  // namespace

std::vector<Figure> run_server_suite(const BenchSettings& settings) {
  std::vector<Figure> figures;
  const auto add = [&](const std::vector<Figure>& more) {
    figures.insert(figures.end(), more.begin(), more.end());
  };
  for (const std::size_t streams : {1U, 8U, 16U}) add(measure_streams(settings, streams));
  add(measure_health(settings));
  add(measure_null(settings));
  return figures;
}

}  // namespace sluice::bench
