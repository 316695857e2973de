// Tokens that were drawn and wait for the verdict of a judge (custom_stop.hpp).
//
// One question is open at a time, with all tokens that had come when it was put; those that come
// meanwhile are the next question. So a judge that is as fast as the model is asked token by
// token, and a slow one gets its tokens together.
//
// Worked example: tokens 1 arrives -> question {1}; tokens 2 and 3 arrive, nothing happens; the
// answer "go on" arrives -> token 1 is released, and the next question is {2, 3}.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/stream/custom_stop.hpp"
#include "engine/stream/stop_policy.hpp"
#include "engine/stream/utf8_accumulator.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace sluice {

class JudgeQueue {
 public:
  using Clock = std::chrono::steady_clock;

  JudgeQueue(JudgeRule rule, std::shared_ptr<const Tokenizer> tokenizer)
      : rule_(std::move(rule)), tokenizer_(std::move(tokenizer)) {}

  /// Whether tokens have to pass here.
  bool active() const { return rule_.judge != nullptr; }
  const JudgeRule& rule() const { return rule_; }

  /// The next token; its text follows the rules of the stream's text, which `policy` knows.
  void push(const SampledToken& token, const StopPolicy& policy);
  /// No token follows.
  void set_end_of_room() { end_of_room_ = true; }

  /// The next question, when none is open and there is something to ask.
  std::optional<StopQuestion> ask(Position num_judged, Position max_new_tokens,
                                  Clock::time_point now);

  struct Judged {
    SampledToken token;
    std::optional<CustomEnd> end;
  };
  /// Whether `number` is that of the open question.
  bool expects(std::uint64_t number) const { return open_ > 0 && number == number_; }
  /// Closes the open question: its tokens in order, each with its verdict.
  std::vector<Judged> take(StopAnswer answer);
  /// No judge any more: all tokens, without verdicts.
  std::vector<Judged> retire();

  /// All tokens have been taken and no further one comes.
  bool at_end_of_room() const { return end_of_room_ && waiting_.empty(); }
  bool empty() const { return waiting_.empty(); }
  /// Ids of those that wait, oldest first.
  std::vector<TokenId> tokens() const;
  /// When the open question is overdue.
  Clock::time_point deadline() const { return deadline_; }

 private:
  std::vector<Judged> take_front(std::size_t count, StopAnswer answer);

  JudgeRule rule_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  Utf8Accumulator accumulator_;  ///< runs ahead of the stream's own
  std::deque<StopQuestion::Token> waiting_;
  std::size_t open_ = 0;  ///< of them at the front, in the open question
  std::uint64_t number_ = 0;
  bool end_of_room_ = false;
  Clock::time_point deadline_ = Clock::time_point::max();
};

}  // namespace sluice
