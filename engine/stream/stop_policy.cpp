#include "engine/stream/stop_policy.hpp"

#include <algorithm>
#include <string>

#include "engine/base/error.hpp"
#include "engine/stream/stop_matcher.hpp"
#include "engine/stream/stop_regex.hpp"

namespace sluice {
namespace {

constexpr std::size_t kMaxStopTokenIds = 1024;

void require(bool holds, const char* sentence) {
  if (!holds) throw Error(ErrorCode::kInvalidArgument, sentence);
}

}  // namespace

void check_stop_options(const StopOptions& options) {
  check_stop_strings(options.stop_strings);
  check_stop_patterns(options.stop_patterns);
  require(!options.max_new_tokens || *options.max_new_tokens >= 1,
          "max_new_tokens must be at least 1.");
  require(options.min_new_tokens >= 0, "min_new_tokens must not be negative.");
  require(options.min_confidence >= 0.0F && options.min_confidence <= 1.0F,
          "min_confidence is a probability: it must lie between 0 and 1.");
  require(options.patience >= 0, "patience must not be negative; 0 turns the rule off.");
  require(options.repetition_ngram >= 0, "repetition_ngram must not be negative.");
  require(options.repetition_times == 0 || options.repetition_times >= 2,
          "repetition_times must be 0 (off) or at least 2.");
  require(options.repetition_times == 0 || options.repetition_ngram >= 1,
          "repetition_times needs repetition_ngram, the length of what repeats, of at least 1.");
  require(options.time_limit.count() >= 0, "time_limit must not be negative; 0 is off.");
  require(options.stop_token_ids.size() <= kMaxStopTokenIds,
          "There are more than 1024 stop_token_ids.");
  require(!options.custom || !options.judge.judge,
          "A stream can have a stop rule as a function or as a judge, not both.");
  require(options.judge.ahead >= 1, "A judge's `ahead` must be at least 1.");
  require(options.judge.limit.count() >= 0, "A judge's limit must not be negative; 0 is off.");
}

void check_stream_changes(const StreamChanges& changes) {
  StopOptions options;
  options.max_new_tokens = changes.max_new_tokens;
  if (changes.stop_strings) options.stop_strings = *changes.stop_strings;
  if (changes.stop_patterns) options.stop_patterns = *changes.stop_patterns;
  check_stop_options(options);
  require(!changes.temperature || (*changes.temperature >= 0.0F && *changes.temperature <= 100.0F),
          "temperature must lie between 0 and 100.");
}

StopPolicy::StopPolicy(const StopOptions& options, std::span<const TokenId> end_tokens,
                       Limits limits)
    : limits_(limits),
      min_new_tokens_(options.min_new_tokens),
      end_tokens_(options.stop_token_ids),
      min_confidence_(options.min_confidence),
      patience_(options.patience),
      ngram_(options.repetition_ngram),
      times_(options.repetition_times) {
  if (!options.ignore_end_tokens) {
    end_tokens_.insert(end_tokens_.end(), end_tokens.begin(), end_tokens.end());
  }
  std::ranges::sort(end_tokens_);
}

Position StopPolicy::max_new_tokens() const {
  return limits_.room > 0 ? std::min(limits_.max_new_tokens, limits_.room) : limits_.max_new_tokens;
}

void StopPolicy::count(const SampledToken& token) {
  tokens_.push_back(token.id);
  count_confidence(token.top_probability);
  count_repetition();
}

std::optional<StopRule> StopPolicy::judge(const Evidence& evidence) const {
  if (num_tokens() >= limits_.max_new_tokens) return StopRule::kMaxNewTokens;
  if (armed()) {
    if (at_end_token()) return StopRule::kEndToken;
    if (evidence.stop_string) return StopRule::kStopString;
    if (patience_ > 0 && doubtful_in_a_row_ >= patience_) return StopRule::kLowConfidence;
    if (repeats()) return StopRule::kRepetition;
    if (evidence.time_over) return StopRule::kTimeLimit;
  }
  if (limits_.room > 0 && num_tokens() >= limits_.room) return StopRule::kContextFull;
  return std::nullopt;
}

bool StopPolicy::is_end_token(TokenId id) const {
  return std::ranges::binary_search(end_tokens_, id);
}

void StopPolicy::count_confidence(float top_probability) {
  // A probability that is no number is no evidence of doubt.
  doubtful_in_a_row_ = top_probability < min_confidence_ ? doubtful_in_a_row_ + 1 : 0;
}

void StopPolicy::count_repetition() {
  if (ngram_ <= 0) return;
  const auto distance = static_cast<std::size_t>(ngram_);
  const bool echo =
      tokens_.size() > distance && tokens_.back() == tokens_[tokens_.size() - 1 - distance];
  echoes_in_a_row_ = echo ? echoes_in_a_row_ + 1 : 0;
}

/// The last n-gram stands `times_` times in a row when the last (times_ - 1) n-grams are echoes.
bool StopPolicy::repeats() const {
  return times_ > 0 && ngram_ > 0 &&
         echoes_in_a_row_ >= std::int64_t{ngram_} * (std::int64_t{times_} - 1);
}

}  // namespace sluice
