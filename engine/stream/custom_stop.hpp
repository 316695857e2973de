// Rules of the embedding program that end a stream: a function that is asked on the spot, or a
// judge that takes its time (an actor, a service, another thread).
//
// Both end the same stream at the same byte. The function is called between two tokens. The judge
// is asked in questions of one or more tokens, and until it has answered, nothing of these tokens
// is taken: their text is not shown, no other rule looks at them, they count in no usage.
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

#include "engine/base/types.hpp"
#include "engine/sampling/sampling_params.hpp"

namespace sluice {

/// What a caller's own rule sees after a token; valid during the call only.
struct StopView {
  const SampledToken& token;    ///< the last one
  std::string_view text;        ///< all text so far, shown or held back: whole code points
  std::size_t held_bytes = 0;   ///< of them at the end, not shown before this token was judged
  Position num_tokens = 0;      ///< drawn so far, this one included
  Position max_new_tokens = 0;  ///< in force
};

/// "The stream ends here", by a caller's own rule.
struct CustomEnd {
  // NOLINTNEXTLINE(google-explicit-constructor): a rule may just return its label
  CustomEnd(std::string why, std::optional<std::uint64_t> bytes = std::nullopt)
      : label(std::move(why)), keep(bytes) {}

  std::string label;  ///< `done` reports it as what matched
  /// So many bytes of the stream's text remain. What was shown before stays shown, and a code
  /// point is not cut: it goes as a whole. Empty: all text remains.
  std::optional<std::uint64_t> keep;

  bool operator==(const CustomEnd&) const = default;
};

/// A caller's own rule: with a value the stream ends. Called after every token that no earlier
/// rule ended the stream with, also before the minimum (as the other counts, it may need to see
/// all tokens), where its answer is ignored. One call at a time, on the thread that runs the
/// stream, which it must not block. An exception ends this stream, and no other, with the error
/// "stop_rule_failed".
using CustomStop = std::function<std::optional<CustomEnd>(const StopView&)>;

/// What a judge is asked: does the stream end with one of these tokens?
struct StopQuestion {
  struct Token {
    SampledToken token{};
    std::string text{};  ///< what it adds to the stream's text: whole code points, maybe none
  };
  SequenceId stream = 0;     ///< as StreamHandle::id()
  std::uint64_t number = 0;  ///< of the stream's questions: 1, 2, 3, ...
  Position first = 0;        ///< which token of the stream the first one is; 1 for the very first
  Position max_new_tokens = 0;  ///< in force when the question was put
  /// At least one. All questions of a stream, joined, are its tokens in order, each once.
  std::vector<Token> tokens{};
};

struct StopAnswer {
  /// One for each token of the question, with a value where the stream ends. Those that are
  /// missing go on; what follows the first value that counts is not looked at.
  std::vector<std::optional<CustomEnd>> ends{};
  std::string failure{};  ///< not empty: there is no answer, and this is why

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
/// that has ended. When the last copy goes without an answer, that is a failure.
class StopReply {
 public:
  using Deliver = std::function<void(StopAnswer)>;

  explicit StopReply(Deliver deliver);
  void operator()(StopAnswer answer) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// A rule that answers later. It may serve many streams; each has one question open at most.
class StopJudge {
 public:
  virtual ~StopJudge() = default;
  /// Called on the thread that runs the stream: must not block. An exception is a failure.
  virtual void judge(StopQuestion question, StopReply reply) = 0;
  /// The stream has ended and will ask no more.
  virtual void over(SequenceId /*stream*/) noexcept {}
};

/// How a judge is used.
struct JudgeRule {
  std::shared_ptr<StopJudge> judge{};  ///< empty: none
  /// Longest wait for one answer; then the judge has failed. 0: no limit.
  std::chrono::milliseconds limit{5000};
  /// A failure ends the stream with the error "stop_rule_failed". Or, with true, the stream goes
  /// on, from there on without the rule.
  bool ignore_failure = false;
  /// Tokens that may be drawn or on their way without a verdict, at least 1.
  std::int32_t ahead = 8;
};

}  // namespace sluice
