// One request of the chat or completions API from its streams to its answer, without sockets.
//
// Events of all choices go in, bytes for the client come out. A stream's head is sent when every
// choice has been accepted; an error before that is an HTTP status, and one after it an event.
// The same object serves streaming and whole answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/stream_service.hpp"
#include "web/openai/answer_json.hpp"
#include "web/openai/api_request.hpp"
#include "web/openai/choice.hpp"

namespace sluice::web::openai {

class Completion {
 public:
  Completion(const ApiRequest& request, const StreamService& service, std::string id,
             std::int64_t created);

  /// What an event of a choice leads to.
  struct Output {
    bool head = false;                    ///< a stream: send the head of the response first
    std::string body{};                   ///< a stream: bytes of its body, may be none
    std::optional<HttpResponse> whole{};  ///< not a stream, or failed before it began: the answer
    bool ended = false;   ///< this was all; with `whole`, or with the last of `body`
    bool failed = false;  ///< and not all went well: what is left of the choices is not wanted
  };
  Output on_event(std::size_t choice, const Event& event);

  /// A choice whose events after `accepted` have to wait, since others have not been accepted.
  bool waits(std::size_t choice) const { return accepted_[choice] && !begun(); }
  std::size_t num_choices() const { return choices_.size(); }

 private:
  bool begun() const { return num_accepted_ == choices_.size(); }
  Output on_accepted(std::size_t choice);
  Output on_token(std::size_t choice, const TokenEvent& token);
  Output on_done(std::size_t choice, const DoneEvent& done);
  Output fail(const ApiError& error) const;
  UsageSum usage() const;

  bool stream_;
  AnswerHead head_;
  std::size_t choices_per_prompt_;
  std::vector<Choice> choices_;
  std::vector<Delta> texts_;  ///< of a whole answer
  std::vector<bool> accepted_;
  std::size_t num_accepted_ = 0;
  std::size_t num_ended_ = 0;
};

/// The streams of a request in the order of its choices: the answers to the first prompt, then
/// those to the second. Answers to one prompt are samples of it: they differ in their seed (the
/// request's, plus 0, 1, 2, ...), and the prompt is computed once.
std::vector<GenerateRequest> streams_of(const ApiRequest& request);

}  // namespace sluice::web::openai
