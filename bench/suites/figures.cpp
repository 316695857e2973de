#include "bench/suites/figures.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/json_writer.hpp"

namespace sluice::bench {

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  return {values[values.size() / 2], values.front(), values.back()};
}

std::vector<double> repeat(int repeats, const std::function<double()>& measure) {
  measure();
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) seconds.push_back(measure());
  return seconds;
}

std::string table_of(const std::vector<Figure>& figures, const MachineLimits& limits) {
  std::string text =
      limits.int8_gops > 0
          ? fmt::format(
                "machine: reads {:.1f} GB/s, {:.0f} GOP/s in 8-bit dot products, {:.0f} GFLOP/s "
                "in bf16, {:.0f} in f32\n",
                limits.read_gbs, limits.int8_gops, limits.bf16_gflops, limits.f32_gflops)
          : fmt::format("device: {:.1f} GB/s and {:.0f} GFLOP/s in f32 by its clocks\n",
                        limits.read_gbs, limits.f32_gflops);
  std::string suite;
  for (const Figure& f : figures) {
    if (f.suite != suite) {
      suite = f.suite;
      text += fmt::format("\n{}\n", suite);
    }
    text += fmt::format("  {:<34} {:>9.1f} {:<9} ({:.1f} to {:.1f})", f.what, f.value.median,
                        f.unit, f.value.low, f.value.high);
    if (!f.limit.empty()) text += fmt::format("  {:>3.0f} % of {}", f.percent_of_limit, f.limit);
    text += f.note.empty() ? "\n" : fmt::format("  {}\n", f.note);
  }
  return text;
}

std::string json_of(const std::vector<Figure>& figures, const MachineLimits& limits,
                    std::string_view description) {
  JsonWriter json;
  json.begin_object();
  json.key("machine").begin_object();
  json.field("backend", description);
  json.field("read_gb_per_second", limits.read_gbs);
  json.field("int8_gop_per_second", limits.int8_gops);
  json.field("bf16_gflop_per_second", limits.bf16_gflops);
  json.field("f32_gflop_per_second", limits.f32_gflops);
  json.end_object();
  json.key("figures").begin_array();
  for (const Figure& f : figures) {
    json.begin_object();
    json.field("suite", f.suite).field("what", f.what).field("unit", f.unit);
    json.field("median", f.value.median).field("low", f.value.low).field("high", f.value.high);
    if (!f.limit.empty())
      json.field("limit", f.limit).field("percent_of_limit", f.percent_of_limit);
    if (!f.note.empty()) json.field("note", f.note);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.take();
}

}  // namespace sluice::bench
