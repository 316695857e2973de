#include "engine/stream/length_sketch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

constexpr std::string_view kHead = "sluice-lengths 1 ";
constexpr std::size_t kMaxTextBytes = std::size_t{64} * 1024;
constexpr double kAccuracy = 0.02;
constexpr double kGrowth = (1 + kAccuracy) / (1 - kAccuracy);
constexpr double kMemory = 5000.0;  ///< samples
constexpr double kMostWeight = 1e6;
constexpr std::int64_t kLongest = std::numeric_limits<Position>::max();

/// The i with g^(i-1) < tokens <= g^i.
std::size_t bucket_of(std::int64_t tokens) {
  static const double log_growth = std::log(kGrowth);
  const double exponent = std::log(static_cast<double>(tokens)) / log_growth;
  return static_cast<std::size_t>(std::ceil(std::max(exponent, 0.0)));
}

/// The length that differs from all in the bucket by the accuracy at most.
double length_of(std::size_t bucket) {
  return 2.0 * std::pow(kGrowth, static_cast<double>(bucket)) / (kGrowth + 1.0);
}

[[noreturn]] void refuse(const char* what) {
  throw Error(ErrorCode::kCorrupt, std::string("The record of answer lengths ") + what +
                                       "; delete it to begin a new one.");
}

/// Takes a number off the front of `text`.
template <typename Number>
Number take_number(std::string_view& text) {
  Number number{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc()) refuse("has something else where a number should be");
  text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()));
  return number;
}

void take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) refuse("is not written as it should be");
  text.remove_prefix(1);
}

}  // namespace

bool LengthSketch::observe(const Ending& ending) {
  if (ending.tokens < 1) return false;
  switch (ending.rule) {
    case StopRule::kEndToken:
    case StopRule::kStopString:
    case StopRule::kCustom:
      add(ending.tokens);
      return true;
    case StopRule::kMaxNewTokens:
      if (!ending.default_maximum) return false;
      [[fallthrough]];
    case StopRule::kContextFull:
      add(ending.tokens + (std::int64_t{ending.tokens} + 3) / 4);
      return true;
    case StopRule::kLowConfidence:
    case StopRule::kRepetition:
    case StopRule::kTimeLimit:
    case StopRule::kCancelled:
      return false;
  }
  return false;
}

void LengthSketch::add(std::int64_t tokens) {
  if (tokens < 1) return;
  const std::size_t bucket = bucket_of(std::min(tokens, kLongest));
  if (bucket >= weights_.size()) weights_.resize(bucket + 1, 0.0);
  weights_[bucket] += newest_;
  ++samples_;
  newest_ /= 1.0 - 1.0 / kMemory;
  if (newest_ < kMostWeight) return;
  for (double& weight : weights_) weight /= newest_;
  newest_ = 1.0;
}

std::optional<Position> LengthSketch::quantile(double q) const {
  double total = 0.0;
  for (const double weight : weights_) total += weight;
  if (!(total > 0.0)) return std::nullopt;
  // A hair less, so that sums that are equal on paper count as equal.
  const double wanted = std::clamp(q, 0.0, 1.0) * total * (1.0 - 1e-9);
  double sum = 0.0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] <= 0.0) continue;
    last = i;
    sum += weights_[i];
    if (sum >= wanted) break;
  }
  const double length = std::round(length_of(last));
  return static_cast<Position>(std::clamp(length, 1.0, static_cast<double>(kLongest)));
}

std::string LengthSketch::serialise() const {
  std::string text = fmt::format("{}{}", kHead, samples_);
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const double weight = weights_[i] / newest_;
    if (weight > 1e-9) text += fmt::format(" {}:{:.9g}", i, weight);
  }
  return text + "\n";
}

LengthSketch LengthSketch::parse(std::string_view text) {
  if (text.size() > kMaxTextBytes) refuse("is too long");
  if (!text.starts_with(kHead)) refuse("does not begin as it should");
  text.remove_prefix(kHead.size());
  LengthSketch sketch;
  sketch.samples_ = take_number<std::uint64_t>(text);
  const std::size_t most = bucket_of(kLongest) + 1;
  while (!text.empty() && text.front() != '\n') {
    take(text, ' ');
    const auto bucket = take_number<std::size_t>(text);
    if (bucket >= most) refuse("has a length that there can not be");
    if (bucket < sketch.weights_.size()) refuse("is not in order");
    take(text, ':');
    const auto weight = take_number<double>(text);
    // No sum of fading samples is larger than their memory.
    if (!(weight > 0.0 && weight <= 2.0 * kMemory)) refuse("has a weight that there can not be");
    sketch.weights_.resize(bucket + 1, 0.0);
    sketch.weights_.back() = weight;
  }
  take(text, '\n');
  if (!text.empty()) refuse("goes on behind its end");
  if (sketch.weights_.empty()) sketch.samples_ = 0;
  return sketch;
}

Position default_max_new_tokens(const LengthSketch& sketch, Position configured) {
  if (sketch.samples() < kSamplesToDecide) return configured;
  return sketch.quantile(0.9).value_or(configured);
}

}  // namespace sluice
