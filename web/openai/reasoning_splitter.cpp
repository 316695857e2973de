#include "web/openai/reasoning_splitter.hpp"

#include <algorithm>

namespace sluice::web::openai {
namespace {

/// Bytes at the end of `text` that may be the beginning of `mark`.
std::size_t possible_beginning(std::string_view text, std::string_view mark) {
  std::size_t bytes = std::min(text.size(), mark.empty() ? 0 : mark.size() - 1);
  while (bytes > 0 && !mark.starts_with(text.substr(text.size() - bytes))) --bytes;
  return bytes;
}

}  // namespace

SplitText ReasoningSplitter::feed(std::string_view text) {
  SplitText out;
  held_ += text;
  while (!awaited().empty()) {
    const std::size_t at = held_.find(awaited());
    if (at == std::string::npos) break;
    const std::size_t mark = awaited().size();
    put(out, at);
    held_.erase(0, mark);
    inside_ = !inside_;
  }
  put(out, held_.size() - possible_beginning(held_, awaited()));
  return out;
}

SplitText ReasoningSplitter::on_special(std::string_view text) {
  if (awaited().empty() || text != awaited()) return {};
  SplitText out = finish();
  inside_ = !inside_;
  return out;
}

SplitText ReasoningSplitter::finish() {
  SplitText out;
  put(out, held_.size());
  return out;
}

/// The first bytes of what is held belong to the part that is under way.
void ReasoningSplitter::put(SplitText& out, std::size_t bytes) {
  (inside_ ? out.reasoning : out.content).append(held_, 0, bytes);
  held_.erase(0, bytes);
}

}  // namespace sluice::web::openai
