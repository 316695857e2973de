// Writes metrics in Prometheus' text format 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/
//
//   Exposition out;
//   out.gauge("sluice_ready", "1 when streams are taken.", 1);
//   out.begin("sluice_streams_finished_total", "Streams that ended.", "counter");
//   out.sample({{"rule", "end_token"}}, 7);
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "actors/histogram.hpp"

namespace sluice::web {

/// Names and values of a sample's labels. Values may be any text.
using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

class Exposition {
 public:
  template <class Number>
  void gauge(std::string_view name, std::string_view help, Number value) {
    begin(name, help, "gauge");
    sample({}, value);
  }
  /// `name` ends in _total.
  template <class Number>
  void counter(std::string_view name, std::string_view help, Number value) {
    begin(name, help, "counter");
    sample({}, value);
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& values);

  /// A metric whose samples follow.
  void begin(std::string_view name, std::string_view help, std::string_view type);
  template <class Number>
  void sample(Labels labels, Number value) {
    write(name_, labels, fmt::format("{}", value));
  }

  std::string take() { return std::move(text_); }

 private:
  void write(std::string_view name, Labels labels, std::string_view value);

  std::string name_;
  std::string text_;
};

}  // namespace sluice::web
