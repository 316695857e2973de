// Events of one stream to its text.
#pragma once

#include <stdexcept>
#include <string>

#include "bench/ways/ways.hpp"
#include "sluice/events.hpp"

namespace sluice::bench {

struct Collector {
  std::string text;
  std::string error;
  std::int64_t tokens = 0;

  /// True at the end.
  bool add(const v0::Event& event) {
    if (const auto* token = std::get_if<v0::TokenEvent>(&event)) text += token->text;
    if (const auto* done = std::get_if<v0::DoneEvent>(&event)) {
      tokens = done->usage.completion_tokens;
    } else if (const auto* failure = std::get_if<v0::ErrorEvent>(&event)) {
      error = failure->message;
    }
    return v0::is_terminal(event);
  }
};

inline WayResult result_of(const std::vector<Collector>& streams, std::chrono::nanoseconds time) {
  WayResult result;
  result.time = time;
  for (const Collector& stream : streams) {
    if (!stream.error.empty()) throw std::runtime_error(stream.error);
    result.tokens += stream.tokens;
    result.texts.push_back(stream.text);
  }
  return result;
}

}  // namespace sluice::bench
