#include "web/openai/choice.hpp"

#include <utility>

namespace sluice::web::openai {

Delta Choice::on_token(const TokenEvent& event) const {
  Delta delta{.text = event.text};
  if (!logprobs_) return delta;
  for (const TokenPiece& piece : event.pieces) {
    if (piece.id == kNoToken || (tokenizer_ && tokenizer_->is_special(piece.id))) continue;
    ReportedToken token = report(piece.id, piece.logprob, piece.text);
    for (const TokenLogprob& other : piece.top) {
      token.top.push_back(report(other.id, other.logprob, {}));
    }
    delta.tokens.push_back(std::move(token));
  }
  return delta;
}

ReportedToken Choice::report(TokenId id, float logprob, const std::string& otherwise) const {
  ReportedToken token{.logprob = static_cast<double>(logprob)};
  token.bytes = tokenizer_ ? std::string(tokenizer_->token_bytes(id)) : otherwise;
  return token;
}

}  // namespace sluice::web::openai
