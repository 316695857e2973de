// From tokens to text that may be shown: bytes -> code points -> stop rules -> pieces.
//
// The one path for streaming and non-streaming: joining the pieces of all calls gives the
// answer's text, however the calls were cut.
//
// Worked example with the stop string "\nHuman:", tokens "Hi", ".\n", "Hu", "mble":
//   push("Hi")    -> piece {"Hi"}
//   push(".\n")   -> piece {".\n" without the "\n"}: "." is shown, "\n" may begin the stop string
//   push("Hu")    -> nothing: "\nHu" is held back
//   push("mble")  -> pieces {"\nHu"}, {"mble"}: two tokens, each delivered once
//
// Which piece text belongs to:
// - Every token is delivered exactly once, in order, with its id and logprobs: as soon as some of
//   its text may be shown, or at once when nothing before it waits and it has no text (a special
//   token). A token whose text is all held back, or which ends inside its only code point, waits.
// - Text of a token that was delivered before (its held-back end, the rest of a code point) is in
//   the piece of the next token delivered. At the end of the stream, when there is no next token,
//   it is in a piece with the id -1 (kNoToken), which is no token. So is text that a change of
//   the stops sets free while no token waits.
// - A token that a stop cuts keeps the text before the cut. A token cut wholly, the end token and
//   special tokens are delivered with empty text: the number of tokens delivered is always the
//   number of tokens counted in usage.completion_tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/stream/events.hpp"
#include "engine/stream/request.hpp"
#include "engine/stream/scope_matcher.hpp"
#include "engine/stream/stop_policy.hpp"
#include "engine/stream/utf8_accumulator.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace sluice {

struct PipelineOptions {
  StopOptions stop{};
  std::vector<TokenId> end_tokens{};  ///< the model's
  StopPolicy::Limits limits{};
  std::optional<ReasoningMarkers> reasoning{};
};

/// Why and where a rule ended the stream; fields as in DoneEvent.
struct Verdict {
  StopRule rule = StopRule::kEndToken;
  std::string matched{};
  TokenId matched_token = -1;
  std::uint64_t position = 0;
  std::string detail{};
  std::optional<std::uint64_t> keep{};  ///< so many bytes of the text remain; empty: all
  bool failed = false;  ///< the caller's own rule failed, and `detail` says how; no rule holds
};

class TokenPipeline {
 public:
  /// Throws Error(kInvalidArgument); see check_stop_options and ScopeMatcher.
  TokenPipeline(PipelineOptions options, std::shared_ptr<const Tokenizer> tokenizer);

  /// Takes the next token and appends to `pieces` what may be shown now. With a verdict, the
  /// stream is over and `pieces` has all the rest; push no more. `judged` is what a judge says
  /// of the token; it takes the place of the caller's function.
  std::optional<Verdict> push(const SampledToken& token, bool time_over,
                              std::vector<TokenPiece>& pieces,
                              std::optional<CustomEnd> judged = std::nullopt);

  /// New stops or a new maximum, from the next token on (a temperature is not for here). Appends
  /// to `pieces` what may be shown now. With a verdict, the stream is over, as after push().
  /// Throws Error(kInvalidArgument), and nothing has changed, for stops that can't be matched.
  std::optional<Verdict> change(const StreamChanges& changes, std::vector<TokenPiece>& pieces);

  /// The stream ends without another token: appends everything that was held back. An incomplete
  /// code point becomes one U+FFFD.
  void finish(std::vector<TokenPiece>& pieces);

  /// All tokens taken so far.
  const std::vector<TokenId>& tokens() const { return policy_.tokens(); }
  const StopPolicy& policy() const { return policy_; }
  bool armed() const { return policy_.armed(); }
  Position max_new_tokens() const { return policy_.max_new_tokens(); }
  /// Bytes of text shown so far.
  std::uint64_t text_bytes() const { return shown_; }
  /// Text that waits because it may become a stop: whole code points.
  std::string_view held_text() const { return held_; }
  /// Bytes of whole code points that wait because they may become a stop.
  std::size_t held_text_bytes() const { return held_.size(); }
  /// The same and the bytes of an incomplete code point.
  std::size_t held_back_bytes() const { return held_.size() + accumulator_.pending(); }

 private:
  /// A token that has not been delivered.
  struct Waiting {
    TokenPiece piece;
    std::uint64_t begin = 0;  ///< of its text in the stream's text
    std::uint64_t end = 0;
    bool open = false;  ///< a code point is incomplete after it
  };

  std::optional<StopMatch> take_text(TokenId id);
  std::optional<Verdict> ask_caller(const SampledToken& token) const;
  std::optional<Verdict> end_by_caller(std::optional<CustomEnd> end) const;
  std::uint64_t whole_code_points(std::uint64_t end) const;
  Verdict verdict_for(StopRule rule, const std::optional<StopMatch>& match) const;
  std::string_view matched_text(const StopMatch& match) const;
  bool is_shown(const StopMatch& match) const;
  void deliver_until(std::uint64_t safe, std::vector<TokenPiece>& pieces);
  void deliver(std::size_t count, std::uint64_t safe, std::vector<TokenPiece>& pieces);
  void show_rest(std::uint64_t safe, std::vector<TokenPiece>& pieces);
  void remember_shown(std::size_t size);
  void finish_at(const std::optional<StopMatch>& match, std::vector<TokenPiece>& pieces,
                 std::optional<std::uint64_t> keep = std::nullopt);

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<StopString> stop_strings_;
  std::vector<StopPattern> stop_patterns_;
  CustomStop custom_;
  StopPolicy policy_;
  Utf8Accumulator accumulator_;
  ScopeMatcher matcher_;
  std::uint64_t shown_ = 0;       ///< bytes delivered; held_ begins here
  std::string held_;              ///< text not yet shown
  std::string recent_;            ///< the last 3 bytes shown, if so many
  std::string whole_;             ///< all text, for the caller's own rule; else unused
  std::vector<Waiting> waiting_;  ///< oldest first
};

}  // namespace sluice
