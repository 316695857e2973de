#include "engine/stream/token_pipeline.hpp"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

const StopOptions& checked(const StopOptions& options) {
  check_stop_options(options);
  return options;
}

}  // namespace

TokenPipeline::TokenPipeline(PipelineOptions options, std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)),
      stop_strings_(checked(options.stop).stop_strings),
      stop_patterns_(options.stop.stop_patterns),
      custom_(options.stop.custom),
      policy_(options.stop, options.end_tokens, options.limits),
      matcher_(stop_strings_, stop_patterns_, options.reasoning) {}

std::optional<Verdict> TokenPipeline::push(const SampledToken& token, bool time_over,
                                           std::vector<TokenPiece>& pieces,
                                           std::optional<CustomEnd> judged) {
  policy_.count(token);
  Waiting& entry = waiting_.emplace_back();
  entry.piece = {token.id, {}, token.logprob, token.top};
  entry.begin = shown_ + held_.size();
  const std::optional<StopMatch> match = take_text(token.id);
  entry.end = shown_ + held_.size();
  entry.open = accumulator_.pending() > 0;

  const auto rule = policy_.judge({.stop_string = match.has_value(), .time_over = time_over});
  std::optional<Verdict> verdict;
  if (!rule || *rule > StopRule::kCustom) {
    verdict = custom_ ? ask_caller(token) : end_by_caller(std::move(judged));
  }
  if (rule && !verdict) verdict = verdict_for(*rule, match);
  if (verdict) {
    finish_at(match, pieces, verdict->keep);
    if (verdict->rule != StopRule::kStopString) verdict->position = shown_;
  } else {
    deliver_until(matcher_.safe_end(), pieces);
  }
  return verdict;
}

std::optional<Verdict> TokenPipeline::change(const StreamChanges& changes,
                                             std::vector<TokenPiece>& pieces) {
  std::optional<StopMatch> match;
  if (changes.stop_strings || changes.stop_patterns) {
    std::vector<StopString> strings = changes.stop_strings.value_or(stop_strings_);
    std::vector<StopPattern> patterns = changes.stop_patterns.value_or(stop_patterns_);
    match = matcher_.change(strings, patterns, recent_, held_);
    stop_strings_ = std::move(strings);
    stop_patterns_ = std::move(patterns);
  }
  if (changes.max_new_tokens) policy_.set_max_new_tokens(*changes.max_new_tokens);

  std::optional<Verdict> verdict;
  if (const auto rule = policy_.judge({.stop_string = match.has_value()})) {
    verdict = verdict_for(*rule, match);
    finish_at(match, pieces);
    if (verdict->rule != StopRule::kStopString) verdict->position = shown_;
    return verdict;
  }
  deliver_until(matcher_.safe_end(), pieces);
  show_rest(matcher_.safe_end(), pieces);
  return std::nullopt;
}

void TokenPipeline::finish(std::vector<TokenPiece>& pieces) {
  finish_at(std::nullopt, pieces);
}

/// Adds the token's text to what is held and looks for a stop string in it.
std::optional<StopMatch> TokenPipeline::take_text(TokenId id) {
  if (tokenizer_->is_special(id)) {
    matcher_.on_special_token(tokenizer_->token_bytes(id));
    return std::nullopt;
  }
  if (policy_.armed() && policy_.at_end_token()) return std::nullopt;
  const std::size_t before = held_.size();
  accumulator_.append(tokenizer_->token_bytes(id), held_);
  const std::string_view added = std::string_view(held_).substr(before);
  if (custom_) whole_ += added;
  if (policy_.armed()) return matcher_.feed(added);
  matcher_.skip(added);
  return std::nullopt;
}

/// The caller's own rule, whose failure is this stream's alone.
std::optional<Verdict> TokenPipeline::ask_caller(const SampledToken& token) const {
  const auto failed = [](std::string_view why) {
    return Verdict{.rule = StopRule::kCustom,
                   .detail = "The caller's own stop rule failed: " + to_valid_utf8(why),
                   .failed = true};
  };
  try {
    return end_by_caller(custom_({.token = token,
                                  .text = whole_,
                                  .held_bytes = held_.size(),
                                  .num_tokens = policy_.num_tokens(),
                                  .max_new_tokens = policy_.max_new_tokens()}));
  } catch (const std::exception& error) {
    return failed(error.what());
  } catch (...) {
    return failed("it threw something that is no std::exception");
  }
}

std::optional<Verdict> TokenPipeline::end_by_caller(std::optional<CustomEnd> end) const {
  if (!end || !policy_.armed()) return std::nullopt;
  return Verdict{
      .rule = StopRule::kCustom, .matched = to_valid_utf8(end->label), .keep = end->keep};
}

Verdict TokenPipeline::verdict_for(StopRule rule, const std::optional<StopMatch>& match) const {
  Verdict verdict{.rule = rule};
  if (rule == StopRule::kStopString) {
    verdict.matched = matched_text(*match);
    verdict.position = match->begin;
    if (match->pattern) verdict.detail = stop_patterns_[match->index].pattern;
  } else if (rule == StopRule::kEndToken) {
    verdict.matched_token = tokens().back();
    verdict.matched = to_valid_utf8(tokenizer_->token_bytes(tokens().back()));
  } else if (match) {
    verdict.detail = "the last token also completed the stop string \"" +
                     std::string(matched_text(*match)) + "\"";
  }
  return verdict;
}

/// A match lies in what is held back, and is asked for before that is shown or cut.
std::string_view TokenPipeline::matched_text(const StopMatch& match) const {
  return std::string_view(held_).substr(static_cast<std::size_t>(match.begin - shown_),
                                        static_cast<std::size_t>(match.end - match.begin));
}

bool TokenPipeline::is_shown(const StopMatch& match) const {
  return match.pattern ? stop_patterns_[match.index].include : stop_strings_[match.index].include;
}

/// Shows the text before `safe` and delivers the tokens that have nothing to wait for.
void TokenPipeline::deliver_until(std::uint64_t safe, std::vector<TokenPiece>& pieces) {
  std::size_t count = waiting_.size();
  while (count > 0) {
    const Waiting& last = waiting_[count - 1];
    if (last.begin < safe && last.begin < last.end) break;  // some of its text is shown
    if (last.end <= safe && !last.open) break;              // nothing of it is missing
    --count;
  }
  // Text of an earlier token became free while this one is held back: it goes with this one.
  if (count == 0 && safe > shown_ && !waiting_.empty()) count = 1;
  deliver(count, safe, pieces);
}

/// Delivers the first `count` tokens with the text before `safe`, each with its own, the last
/// one with all the rest.
void TokenPipeline::deliver(std::size_t count, std::uint64_t safe,
                            std::vector<TokenPiece>& pieces) {
  std::size_t used = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Waiting& entry = waiting_[i];
    const std::uint64_t end = i + 1 == count ? safe : std::clamp(entry.end, shown_, safe);
    const auto size = static_cast<std::size_t>(end - shown_);
    entry.piece.text.assign(held_, used, size);
    used += size;
    shown_ += size;
    pieces.push_back(std::move(entry.piece));
  }
  remember_shown(used);
  held_.erase(0, used);
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
}

/// Shows the text before `safe` of tokens that were all delivered.
void TokenPipeline::show_rest(std::uint64_t safe, std::vector<TokenPiece>& pieces) {
  if (safe <= shown_) return;
  const auto size = static_cast<std::size_t>(safe - shown_);
  pieces.push_back({kNoToken, held_.substr(0, size), 0.0F, {}});
  remember_shown(size);
  held_.erase(0, size);
  shown_ = safe;
}

/// The first `size` bytes that are held are about to be shown.
void TokenPipeline::remember_shown(std::size_t size) {
  constexpr std::size_t kRecentBytes = 3;
  recent_.append(held_, size - std::min(size, kRecentBytes), std::min(size, kRecentBytes));
  if (recent_.size() > kRecentBytes) recent_.erase(0, recent_.size() - kRecentBytes);
}

/// The last place at or before `end` that is not inside a code point of what is held.
std::uint64_t TokenPipeline::whole_code_points(std::uint64_t end) const {
  const auto continues = [this](std::uint64_t at) {
    const auto index = static_cast<std::size_t>(at - shown_);
    return index < held_.size() && (static_cast<unsigned char>(held_[index]) & 0xC0U) == 0x80U;
  };
  while (end > shown_ && continues(end)) --end;
  return end;
}

/// The last act: shows everything, or everything before the stop string, and of that the first
/// `keep` bytes.
void TokenPipeline::finish_at(const std::optional<StopMatch>& match,
                              std::vector<TokenPiece>& pieces, std::optional<std::uint64_t> keep) {
  std::optional<StopMatch> cut = match;
  if (!cut) {
    const std::size_t before = held_.size();
    accumulator_.finish(held_);
    // Even a stop string that only the replacement completes must not show.
    const std::string_view added = std::string_view(held_).substr(before);
    if (policy_.armed()) cut = matcher_.feed(added);
  }
  std::uint64_t end = shown_ + held_.size();
  if (cut) end = is_shown(*cut) ? cut->end : cut->begin;
  if (keep) end = whole_code_points(std::clamp(*keep, shown_, end));
  held_.resize(static_cast<std::size_t>(end - shown_));
  if (!waiting_.empty()) deliver(waiting_.size(), end, pieces);
  show_rest(end, pieces);
}

}  // namespace sluice
