#include "engine/stream/judge_queue.hpp"

#include <algorithm>
#include <utility>

namespace sluice {

void JudgeQueue::push(const SampledToken& token, const StopPolicy& policy) {
  StopQuestion::Token& entry = waiting_.emplace_back(StopQuestion::Token{token, {}});
  // As TokenPipeline::take_text(): special tokens and the ending one have no text.
  const auto number = policy.num_tokens() + static_cast<Position>(waiting_.size());
  const bool ends = policy.armed_after(number) && policy.is_end_token(token.id);
  if (tokenizer_->is_special(token.id) || ends) return;
  accumulator_.append(tokenizer_->token_bytes(token.id), entry.text);
}

std::optional<StopQuestion> JudgeQueue::ask(Position num_judged, Position max_new_tokens,
                                            Clock::time_point now) {
  if (!active() || open_ > 0 || waiting_.empty()) return std::nullopt;
  open_ = waiting_.size();
  if (rule_.limit.count() > 0) deadline_ = now + rule_.limit;
  return StopQuestion{.number = ++number_,
                      .first = num_judged + 1,
                      .max_new_tokens = max_new_tokens,
                      .tokens = {waiting_.begin(), waiting_.end()}};
}

std::vector<JudgeQueue::Judged> JudgeQueue::take(StopAnswer answer) {
  return take_front(open_, std::move(answer));
}

std::vector<JudgeQueue::Judged> JudgeQueue::retire() {
  rule_.judge.reset();
  return take_front(waiting_.size(), {});
}

std::vector<JudgeQueue::Judged> JudgeQueue::take_front(std::size_t count, StopAnswer answer) {
  std::vector<Judged> judged;
  answer.ends.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    judged.push_back({std::move(waiting_.front().token), std::move(answer.ends[i])});
    waiting_.pop_front();
  }
  open_ = 0;
  deadline_ = Clock::time_point::max();
  return judged;
}

std::vector<TokenId> JudgeQueue::tokens() const {
  std::vector<TokenId> ids;
  for (const StopQuestion::Token& entry : waiting_) ids.push_back(entry.token.id);
  return ids;
}

}  // namespace sluice
