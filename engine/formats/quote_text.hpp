// Text from a file, made safe to show in a message.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// `text` in single quotes; control characters and bytes outside ASCII become \xNN, and anything
/// beyond 64 bytes is cut and marked with "...": a hostile file can't write to the terminal.
std::string quote_text(std::string_view text);

}  // namespace sluice
