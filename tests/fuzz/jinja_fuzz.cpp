// Fuzz target: any bytes as a chat template, and any bytes as the JSON of its context.
//
// The input is the template, a zero byte, and the context. Both are refused with their errors or
// the template renders, within its limits; what came from the context lies inside of the text.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/chat/jinja/json_value.hpp"
#include "engine/chat/jinja/template.hpp"

using namespace sluice::jinja;

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(data, data + size);
  const std::size_t end = std::min(input.find('\0'), input.size());
  Value context = Value::dict(Dict());
  try {
    Value read = value_from_json(std::string_view(input).substr(std::min(end + 1, input.size())));
    if (read.is_dict()) context = read;
  } catch (const Failure&) {
    // A template also renders without variables.
  }
  RenderOptions options;
  options.limits.max_output_bytes = 1 << 16;
  options.limits.max_allocated_bytes = 1 << 20;
  options.limits.max_work = 200'000;
  options.relaxed = size % 2 == 0;
  try {
    const Template parsed = Template::parse(input.substr(0, end), "input");
    const RenderResult result = parsed.render(context, options);
    std::size_t last = 0;
    for (const ByteRange& range : result.untrusted) {
      require(range.begin >= last && range.begin < range.end, "the order of ranges");
      last = range.end;
    }
    require(last <= result.text.size(), "ranges lie in the text");
  } catch (const TemplateError& error) {
    require(error.line() >= 1 && !error.reason().empty(), "an error has a line and a reason");
  }
  return 0;
}
