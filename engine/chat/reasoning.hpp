// How models mark the reasoning that comes before their answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/tokenizer/tokenizer.hpp"

namespace sluice {

struct ReasoningTags {
  std::string open;   ///< e.g. "<think>"
  std::string close;  ///< e.g. "</think>"

  bool operator==(const ReasoningTags&) const = default;
};

/// The tags that a model uses: those of published models that its template writes (the closing one
/// is enough, since templates cut reasoning out of earlier turns by it), otherwise those of which
/// both are tokens of its vocabulary. Nothing when there are none. `template_text` may be empty.
std::optional<ReasoningTags> reasoning_markers(std::string_view template_text,
                                               const Tokenizer& tokenizer);

/// Whether a prompt ends inside of reasoning: with the opening tag and at most white space.
bool ends_in_reasoning(std::string_view prompt, const ReasoningTags& tags);

}  // namespace sluice
