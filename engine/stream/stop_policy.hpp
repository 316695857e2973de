// The rules that end a stream, except for finding stop strings in text (stop_matcher.hpp).
//
// Rules are evaluated after every single token, in the order of StopRule; the first that holds
// is the stream's end. Before `min_new_tokens` tokens only max_new_tokens and a full context can
// end it (and a cancel or a failure, which are no rules).
//
// Worked example, max_new_tokens 3, min_new_tokens 2, end token 9:
//   tokens 9, 5, 9: the first 9 comes before the minimum and ends nothing; the second is the
//   third token and ends the stream as max_new_tokens, since that rule is tried first.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/stream/events.hpp"
#include "engine/stream/request.hpp"

namespace sluice {

/// Throws Error(kInvalidArgument) with a sentence for the person who asked, when the options can
/// never work: a negative number, a stop string that can't be matched, a confidence outside 0..1,
/// half a repetition rule.
void check_stop_options(const StopOptions& options);
/// Likewise for changes of a running stream.
void check_stream_changes(const StreamChanges& changes);

class StopPolicy {
 public:
  struct Limits {
    Position max_new_tokens = 0;  ///< in force
    Position room = 0;            ///< output tokens that fit behind the prompt; 0: not known here
  };

  /// What the policy can't know by itself about the last token.
  struct Evidence {
    bool stop_string = false;  ///< a stop string is complete
    bool time_over = false;    ///< the time limit has passed
  };

  /// `end_tokens` are the model's; options.stop_token_ids are added to them, and
  /// options.ignore_end_tokens leaves only those.
  StopPolicy(const StopOptions& options, std::span<const TokenId> end_tokens, Limits limits);

  /// A new maximum, from the next verdict on.
  void set_max_new_tokens(Position max_new_tokens) { limits_.max_new_tokens = max_new_tokens; }
  /// In force: what was set, or the room if that is less.
  Position max_new_tokens() const;

  /// Takes the next token.
  void count(const SampledToken& token);

  /// The first rule that holds after the last token, in the order of StopRule. (The caller's own
  /// rule is not tried here.)
  std::optional<StopRule> judge(const Evidence& evidence) const;

  /// Whether the minimum is reached, so that the other rules may end the stream.
  bool armed() const { return armed_after(num_tokens()); }
  bool armed_after(Position num_tokens) const { return num_tokens >= min_new_tokens_; }
  /// Whether the last token is one that ends the stream.
  bool at_end_token() const { return !tokens_.empty() && is_end_token(tokens_.back()); }
  bool is_end_token(TokenId id) const;

  const std::vector<TokenId>& tokens() const { return tokens_; }
  Position num_tokens() const { return static_cast<Position>(tokens_.size()); }

 private:
  void count_confidence(float top_probability);
  void count_repetition();
  bool repeats() const;

  Limits limits_;
  Position min_new_tokens_;
  std::vector<TokenId> end_tokens_;  ///< sorted
  float min_confidence_;
  std::int32_t patience_;
  std::int32_t ngram_;
  std::int32_t times_;

  std::vector<TokenId> tokens_;
  std::int64_t doubtful_in_a_row_ = 0;
  /// How many tokens in a row equal the one `ngram_` places before them.
  std::int64_t echoes_in_a_row_ = 0;
};

}  // namespace sluice
