// One answer of a request, as it grows: events in; text, tokens and the end out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/stream/events.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "web/openai/reasoning_splitter.hpp"

namespace sluice::web::openai {

/// A token as logprobs report it: its own text and bytes, whatever was shown of them.
struct ReportedToken {
  std::string bytes{};
  double logprob = 0.0;
  std::vector<ReportedToken> top{};
};

/// What events added to an answer.
struct Delta {
  std::string text{};
  std::string reasoning{};              ///< what the model thought, without its marks
  std::vector<ReportedToken> tokens{};  ///< only with logprobs; control tokens are left out
  bool empty() const { return text.empty() && reasoning.empty() && tokens.empty(); }
};

/// Streaming and whole answers go through the same calls, so that they can't differ.
class Choice {
 public:
  /// With `parts` reasoning is told from content; otherwise all is text, marks included.
  Choice(std::shared_ptr<const Tokenizer> tokenizer, bool logprobs, bool parts)
      : tokenizer_(std::move(tokenizer)), logprobs_(logprobs), parts_(parts) {}

  void on_accepted(const AcceptedEvent& event);
  Delta on_token(const TokenEvent& event);
  /// What waited for its end.
  Delta on_done(const DoneEvent& done);

  bool ended() const { return done_.has_value(); }
  /// Of an answer that has ended.
  const DoneEvent& done() const { return *done_; }
  std::int64_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  bool is_special(TokenId id) const;
  void split(Delta& delta, const TokenPiece& piece);
  ReportedToken report(TokenId id, float logprob, const std::string& otherwise) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool logprobs_;
  bool parts_;
  ReasoningSplitter splitter_;
  std::int64_t reasoning_tokens_ = 0;  ///< marks included
  std::optional<DoneEvent> done_;
};

}  // namespace sluice::web::openai
