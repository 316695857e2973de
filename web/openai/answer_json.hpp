// Answers as OpenAI's clients read them: whole ones and the chunks of a stream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/stream/events.hpp"
#include "web/openai/choice.hpp"

namespace sluice::web::openai {

/// What all parts of one answer have in common.
struct AnswerHead {
  bool chat = true;
  std::string id{};
  std::string model{};
  std::int64_t created = 0;  ///< seconds since 1970
  bool logprobs = false;
  bool include_usage = false;  ///< chunks say that theirs is null
};

/// A choice that has ended, with all of its text and tokens.
struct WholeChoice {
  Delta all{};
  DoneEvent done{};
};

/// The prompts are counted once each, however many answers they have.
struct UsageSum {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t reasoning_tokens = 0;  ///< of them
};

std::string whole_json(const AnswerHead& head, const std::vector<WholeChoice>& choices,
                       const UsageSum& usage);

/// The first chunk of a chat choice: who speaks.
std::string role_chunk(const AnswerHead& head, std::size_t choice);
std::string delta_chunk(const AnswerHead& head, std::size_t choice, const Delta& delta);
std::string end_chunk(const AnswerHead& head, std::size_t choice, const DoneEvent& done);
std::string usage_chunk(const AnswerHead& head, const UsageSum& usage);

/// A chunk as a server-sent event; a comment keeps a silent connection open.
std::string sse(const std::string& json);
inline constexpr const char* kSseDone = "data: [DONE]\n\n";
std::string sse_comment(const HeartbeatEvent& beat);

}  // namespace sluice::web::openai
