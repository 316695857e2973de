// Rules of the embedding program that end a stream: a function that is asked on the spot, or a
// judge that takes its time (an actor, see caf.hpp; a service; another thread).
//
//   request.stop.custom = [](const sluice::StopView& view) -> std::optional<sluice::CustomEnd> {
//     const std::size_t end = view.text.find("</answer>");
//     if (end == view.text.npos) return std::nullopt;
//     return sluice::CustomEnd("answer complete", end);    // keeps the text before the mark
//   };
//
// Both end the same stream at the same byte. The function is called between two tokens. The judge
// is asked in questions of one or more tokens, and until it has answered, nothing of these tokens
// is shown or counted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/version.hpp"

namespace sluice {
namespace SLUICE_PUBLIC v0 {

/// Index of a token in the model's vocabulary.
using TokenId = std::int32_t;
/// Names one stream of an engine; never reused.
using StreamId = std::uint64_t;

/// An alternative at one position.
struct TokenLogprob {
  TokenId id = 0;        ///< which token
  float logprob = 0.0F;  ///< natural logarithm of its probability, before temperature
};

/// One token with what the sampler knew about it.
struct SampledToken {
  TokenId id = 0;                   ///< which
  float logprob = 0.0F;             ///< as in TokenLogprob
  float top_probability = 0.0F;     ///< the largest of that step
  std::vector<TokenLogprob> top{};  ///< Sampling::num_top_logprobs of them, most likely first
};

/// What a caller's own rule sees after a token; valid during the call only.
struct StopView {
  SampledToken token{};             ///< the last one
  std::string_view text{};          ///< all text so far, shown or held back: whole code points
  std::size_t held_bytes = 0;       ///< of them at the end, not shown before this token was judged
  std::int32_t num_tokens = 0;      ///< drawn so far, this one included
  std::int32_t max_new_tokens = 0;  ///< in force
};

/// "The stream ends here", by a caller's own rule.
struct CustomEnd {
  /// Ends it and says why; `bytes` as in `keep`. A rule may just return its label.
  // NOLINTNEXTLINE(google-explicit-constructor): so that it may
  CustomEnd(std::string why, std::optional<std::uint64_t> bytes = std::nullopt)
      : label(std::move(why)), keep(bytes) {}

  std::string label;  ///< DoneEvent::matched
  /// So many bytes of the stream's text remain. What was shown before stays shown, and a code
  /// point is not cut. Empty: all text remains.
  std::optional<std::uint64_t> keep;
};

/// A caller's own rule: with a value the stream ends. Called after every token that no earlier
/// rule ended the stream with; before the minimum its answer is ignored. One call at a time, on
/// the thread that runs the stream, which it must not block. An exception ends this stream, and no
/// other, with the error "stop_rule_failed". Copies of it are destroyed with the stream.
using CustomStop = std::function<std::optional<CustomEnd>(const StopView&)>;

/// What a judge is asked: does the stream end with one of these tokens?
struct StopQuestion {
  /// One of the tokens.
  struct Token {
    SampledToken token{};  ///< as it was drawn
    std::string text{};    ///< what it adds to the stream's text: whole code points, maybe none
  };
  StreamId stream = 0;              ///< as Stream::id()
  std::uint64_t number = 0;         ///< of the stream's questions: 1, 2, 3, ...
  std::int32_t first = 0;           ///< which token of the stream the first one is, from 1
  std::int32_t max_new_tokens = 0;  ///< in force when the question was put
  /// At least one. All questions of a stream, joined, are its tokens in order, each once.
  std::vector<Token> tokens{};
};

/// What a judge says.
struct StopAnswer {
  /// One for each token of the question, with a value where the stream ends. Those that are
  /// missing go on.
  std::vector<std::optional<CustomEnd>> ends{};
  std::string failure{};  ///< not empty: there is no answer, and this is why

  /// None of the tokens is the end.
  static StopAnswer go_on() { return {}; }
  /// The stream ends with the token `index` of the question (0 is its first).
  static StopAnswer stop(std::size_t index, CustomEnd end) {
    StopAnswer answer;
    answer.ends.resize(index + 1);
    answer.ends[index] = std::move(end);
    return answer;
  }
};

/// Takes one answer, from any thread, at any time; later ones are ignored, as is one for a stream
/// that has ended. When the last copy goes without an answer, that is a failure of the judge.
using StopReply = std::function<void(StopAnswer)>;

/// A rule that answers later. It may serve many streams; each has one question open at most.
class StopJudge {
 public:
  virtual ~StopJudge();
  /// Called on the thread that runs the stream: must not block. An exception is a failure.
  virtual void judge(StopQuestion question, StopReply reply) = 0;
  /// The stream has ended and will ask no more.
  virtual void over(StreamId stream) noexcept;
};

/// How a judge is used.
struct JudgeRule {
  std::shared_ptr<StopJudge> judge{};     ///< empty: none
  std::chrono::milliseconds limit{5000};  ///< longest wait for one answer; 0: no limit
  /// A failure ends the stream with the error "stop_rule_failed". With true, the stream goes on
  /// without the rule.
  bool ignore_failure = false;
  std::int32_t ahead = 8;  ///< tokens that may be drawn without a verdict, at least 1
};

}  // namespace v0
}  // namespace sluice
