#include "engine/chat/jinja/text_search.hpp"

#include <cstring>

namespace sluice::jinja {

std::size_t find_bytes(std::string_view text, std::string_view what, std::size_t from) {
  if (from > text.size()) return std::string::npos;
  if (what.empty()) return from;
  // memmem is linear in the worst case; string_view::find is not.
  const void* const found =
      ::memmem(text.data() + from, text.size() - from, what.data(), what.size());
  if (found == nullptr) return std::string::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

ReverseFinder::ReverseFinder(std::string_view text, std::string_view what)
    : text_(text.rbegin(), text.rend()), what_(what.rbegin(), what.rend()) {}

std::size_t ReverseFinder::find(std::size_t end) const {
  const std::size_t found = find_bytes(text_, what_, text_.size() - end);
  return found == std::string::npos ? found : text_.size() - found - what_.size();
}

}  // namespace sluice::jinja
