#include "bench/suites/life_suites.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

namespace sluice::bench {
namespace {

constexpr Position kPrompt = 16;
constexpr int kAround = 10;  ///< tokens before and behind the one that is looked at

double median_of(const std::vector<double>& seconds, std::size_t middle) {
  const std::size_t from = middle < kAround ? 0 : middle - kAround;
  const std::size_t to = std::min(seconds.size(), middle + kAround);
  return spread_of({seconds.begin() + static_cast<std::ptrdiff_t>(from),
                    seconds.begin() + static_cast<std::ptrdiff_t>(to)})
      .median;
}

Figure milliseconds(const char* what, std::vector<double> seconds) {
  for (double& s : seconds) s *= 1e3;
  return {"answer (1000 tokens)", what, "ms", spread_of(std::move(seconds)), {}, 0, {}};
}

}  // namespace

std::vector<Figure> run_start(const BenchSettings& settings, LimitProbe&) {
  const Spread spread = spread_of(repeat(settings.repeats, [&] {
    const auto start = std::chrono::steady_clock::now();
    BenchEngine engine(settings, 1, 64);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    return seconds.count();
  }));
  const double gigabytes = static_cast<double>(std::filesystem::file_size(settings.model)) * 1e-9;
  return {{"start",
           "file to first step",
           std::string("s"),
           spread,
           {},
           0,
           fmt::format("{:.2f} s per GB of {:.2f}", spread.median / gigabytes, gigabytes)}};
}

std::vector<Figure> run_answer(const BenchSettings& settings, LimitProbe&) {
  BenchEngine engine(settings, 1, kPrompt + 1100);
  std::vector<double> tenth;
  std::vector<double> thousandth;
  std::vector<double> fresh;
  for (int i = 0; i < std::min(settings.repeats, 3); ++i) {
    engine.set_length(0, 0);
    engine.prefill(0, kPrompt);
    std::vector<double> seconds;
    for (int token = 0; token < 1000 + kAround; ++token) seconds.push_back(engine.decode(1));
    tenth.push_back(median_of(seconds, 10));
    thousandth.push_back(median_of(seconds, 1000));
    seconds.clear();
    for (int step = 0; step < 2 * kAround; ++step) {
      engine.set_length(0, kPrompt + 1000);
      seconds.push_back(engine.decode(1));
    }
    fresh.push_back(spread_of(seconds).median);
  }
  return {milliseconds("10th token", tenth), milliseconds("1000th token", thousandth),
          milliseconds("a first token after as many positions", fresh)};
}

}  // namespace sluice::bench
