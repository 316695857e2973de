#include "web/openai/choice.hpp"

#include <utility>

namespace sluice::web::openai {

namespace {

void append(Delta& delta, SplitText text) {
  delta.text += text.content;
  delta.reasoning += text.reasoning;
}

}  // namespace

void Choice::on_accepted(const AcceptedEvent& event) {
  if (!parts_ || !event.reasoning) return;
  splitter_ = {event.reasoning->open, event.reasoning->close, event.reasoning->starts_open};
}

Delta Choice::on_token(const TokenEvent& event) {
  Delta delta;
  for (const TokenPiece& piece : event.pieces) {
    split(delta, piece);
    if (!logprobs_ || piece.id == kNoToken || is_special(piece.id)) continue;
    ReportedToken token = report(piece.id, piece.logprob, piece.text);
    for (const TokenLogprob& other : piece.top) {
      token.top.push_back(report(other.id, other.logprob, {}));
    }
    delta.tokens.push_back(std::move(token));
  }
  return delta;
}

Delta Choice::on_done(const DoneEvent& done) {
  done_ = done;
  Delta delta;
  append(delta, splitter_.finish());
  return delta;
}

bool Choice::is_special(TokenId id) const {
  return id != kNoToken && tokenizer_ && tokenizer_->is_special(id);
}

void Choice::split(Delta& delta, const TokenPiece& piece) {
  const bool inside = splitter_.inside();
  append(delta, splitter_.feed(piece.text));  // of a special token: what was held back before it
  if (is_special(piece.id)) append(delta, splitter_.on_special(tokenizer_->token_bytes(piece.id)));
  if (piece.id != kNoToken && (inside || splitter_.inside())) ++reasoning_tokens_;
}

ReportedToken Choice::report(TokenId id, float logprob, const std::string& otherwise) const {
  ReportedToken token{.logprob = static_cast<double>(logprob)};
  token.bytes = tokenizer_ ? std::string(tokenizer_->token_bytes(id)) : otherwise;
  return token;
}

}  // namespace sluice::web::openai
