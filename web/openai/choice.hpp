// One answer of a request, as it grows: events in; text, tokens and the end out.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/stream/events.hpp"
#include "engine/tokenizer/tokenizer.hpp"

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
  std::vector<ReportedToken> tokens{};  ///< only with logprobs; control tokens are left out
};

/// Streaming and whole answers go through the same calls, so that they can't differ.
class Choice {
 public:
  Choice(std::shared_ptr<const Tokenizer> tokenizer, bool logprobs)
      : tokenizer_(std::move(tokenizer)), logprobs_(logprobs) {}

  Delta on_token(const TokenEvent& event) const;
  void on_done(const DoneEvent& done) { done_ = done; }

  bool ended() const { return done_.has_value(); }
  /// Of an answer that has ended.
  const DoneEvent& done() const { return *done_; }

 private:
  ReportedToken report(TokenId id, float logprob, const std::string& otherwise) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool logprobs_;
  std::optional<DoneEvent> done_;
};

}  // namespace sluice::web::openai
