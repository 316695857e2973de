// find_fault(): every limit on what a request may hold.
#include <fmt/format.h>

#include <cstdint>

#include "actors/stream_intake.hpp"
#include "engine/base/error.hpp"
#include "engine/stream/stop_policy.hpp"

namespace sluice {

namespace {

using Fault = std::optional<std::string>;

constexpr std::size_t kMaxListLength = 1024;
constexpr std::size_t kMaxSaltBytes = 1024;
constexpr std::int32_t kMaxTopLogprobs = 20;
constexpr std::int32_t kMaxRepetition = 1024;
constexpr std::chrono::hours kMaxTimeLimit{24 * 30};

/// True for NaN as well, which fails every comparison.
Fault outside(const char* field, float value, float low, float high) {
  if (value >= low && value <= high) return std::nullopt;
  return fmt::format("{} is {}; it must be from {} to {}.", field, value, low, high);
}

Fault not_within(const char* field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return std::nullopt;
  return fmt::format("{} is {}; it must be from {} to {}.", field, value, low, high);
}

Fault too_many(const char* field, std::size_t count, std::size_t limit) {
  if (count <= limit) return std::nullopt;
  return fmt::format("{} has {} entries; at most {} are allowed.", field, count, limit);
}

Fault no_such_token(const char* field, TokenId id, std::size_t vocab_size) {
  if (id >= 0 && static_cast<std::size_t>(id) < vocab_size) return std::nullopt;
  return fmt::format("{} names token {}; this model has tokens 0 to {}.", field, id,
                     static_cast<std::int64_t>(vocab_size) - 1);
}

Fault in_sampling(const SamplingParams& s, std::size_t vocab_size) {
  if (auto f = outside("temperature", s.temperature, 0.0F, 100.0F)) return f;
  if (auto f = not_within("top_k", s.top_k, 0, INT32_MAX)) return f;
  if (!(s.top_p > 0.0F && s.top_p <= 1.0F)) {
    return fmt::format("top_p is {}; it must be above 0 and at most 1.", s.top_p);
  }
  if (auto f = outside("min_p", s.min_p, 0.0F, 1.0F)) return f;
  if (auto f = outside("repetition_penalty", s.repetition_penalty, 0.01F, 100.0F)) return f;
  if (auto f = outside("presence_penalty", s.presence_penalty, -2.0F, 2.0F)) return f;
  if (auto f = outside("frequency_penalty", s.frequency_penalty, -2.0F, 2.0F)) return f;
  if (auto f = not_within("top_logprobs", s.num_top_logprobs, 0, kMaxTopLogprobs)) return f;
  if (auto f = not_within("min_tokens", s.min_new_tokens, 0, INT32_MAX)) return f;
  if (auto f = too_many("logit_bias", s.logit_bias.size(), kMaxListLength)) return f;
  for (const LogitBias& bias : s.logit_bias) {
    if (auto f = no_such_token("logit_bias", bias.token, vocab_size)) return f;
    if (auto f = outside("logit_bias", bias.bias, -100.0F, 100.0F)) return f;
  }
  if (auto f = too_many("banned_before_min", s.banned_before_min.size(), kMaxListLength)) return f;
  for (const TokenId id : s.banned_before_min) {
    if (auto f = no_such_token("banned_before_min", id, vocab_size)) return f;
  }
  return std::nullopt;
}

Fault in_stop(const StopOptions& s, std::size_t vocab_size) {
  if (s.max_new_tokens) {
    if (auto f = not_within("max_tokens", *s.max_new_tokens, 1, INT32_MAX)) return f;
  }
  if (auto f = not_within("min_tokens", s.min_new_tokens, 0, INT32_MAX)) return f;
  if (s.max_new_tokens && s.min_new_tokens > *s.max_new_tokens) {
    return fmt::format("min_tokens is {}, more than max_tokens, which is {}.", s.min_new_tokens,
                       *s.max_new_tokens);
  }
  if (auto f = too_many("stop_token_ids", s.stop_token_ids.size(), kMaxListLength)) return f;
  for (const TokenId id : s.stop_token_ids) {
    if (auto f = no_such_token("stop_token_ids", id, vocab_size)) return f;
  }
  if (auto f = outside("min_confidence", s.min_confidence, 0.0F, 1.0F)) return f;
  if (auto f = not_within("patience", s.patience, 0, INT32_MAX)) return f;
  if (auto f = not_within("repetition_ngram", s.repetition_ngram, 0, kMaxRepetition)) return f;
  if (auto f = not_within("repetition_times", s.repetition_times, 0, kMaxRepetition)) return f;
  const std::int64_t limit_ms = std::chrono::milliseconds(kMaxTimeLimit).count();
  if (auto f = not_within("time_limit_ms", s.time_limit.count(), 0, limit_ms)) return f;
  try {
    check_stop_options(s);
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_fault(const GenerateRequest& request, std::size_t vocab_size) {
  if (auto f = in_sampling(request.sampling, vocab_size)) return f;
  if (auto f = in_stop(request.stop, vocab_size)) return f;
  if (request.salt.size() > kMaxSaltBytes) {
    return fmt::format("salt has {} bytes; at most {} are allowed.", request.salt.size(),
                       kMaxSaltBytes);
  }
  return std::nullopt;
}

}  // namespace sluice
