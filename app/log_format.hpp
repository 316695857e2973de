// How log lines look: for people, or one JSON object a line for programs.
//
//   19:59:32.123 info  stream ended request_id=b3J2 tokens=118
//   {"time":"2026-11-29T19:59:32.123Z","level":"info","message":"stream
//   ended","request_id":"b3J2",...}
//
// Whatever bytes a line has, it stays one line.
#pragma once

#include <spdlog/formatter.h>

#include <memory>
#include <string_view>

namespace sluice::app {

std::unique_ptr<spdlog::formatter> make_text_formatter();
std::unique_ptr<spdlog::formatter> make_json_formatter();

/// Makes the program's logger, to stderr: stdout belongs to the command's result.
void log_to_stderr();

/// "text" or "json"; takes hold at once.
void set_log_format(std::string_view format);

}  // namespace sluice::app
