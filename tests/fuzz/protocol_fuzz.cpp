// Fuzz target: any bytes as a frame of a client. It becomes a message that can be served, or an
// error with a sentence; the fields of a request keep to their limits.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <variant>

#include "web/protocol.hpp"

using namespace sluice;
using namespace sluice::web;

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view frame(reinterpret_cast<const char*>(data), size);
  const FrameDefaults defaults;
  const ParsedFrame parsed = parse_frame(frame, defaults);
  if (const auto* error = std::get_if<ProtocolError>(&parsed)) {
    require(!error->code.empty() && !error->message.empty(), "an error says what is wrong");
  } else if (const auto* generate = std::get_if<GenerateMessage>(&parsed)) {
    require(generate->keep <= defaults.max_keep, "a stream is not kept longer than allowed");
    require(generate->request.stop.min_new_tokens >= 0, "the minimum is no negative number");
  }
  return 0;
}
