// Runs one stream to its end in the calling thread and prints its text as it comes.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "actors/stream_service.hpp"

namespace sluice::app {

/// How a stream went.
struct StreamOutcome {
  std::string text;               ///< everything shown
  std::optional<DoneEvent> done;  ///< set unless the stream failed
  std::optional<ErrorEvent> error;
};

/// Starts `request`, hands every piece of text to `on_text` in the calling thread and returns
/// after the terminal event. `interrupted` is asked several times a second; once it says true
/// the stream is cancelled, and what was generated is kept.
StreamOutcome run_stream(StreamService& service, GenerateRequest request,
                         const std::function<void(std::string_view)>& on_text,
                         const std::function<bool()>& interrupted);

}  // namespace sluice::app
