// What needs no engine: version, errors, the judge's anchors.
#include "sluice/error.hpp"
#include "sluice/stop_rule.hpp"
#include "sluice/version.hpp"

#define SLUICE_TEXT_OF(x) #x
#define SLUICE_TEXT(x) SLUICE_TEXT_OF(x)

namespace sluice::v0 {

const char* version() noexcept {
  return SLUICE_TEXT(SLUICE_VERSION_MAJOR) "." SLUICE_TEXT(SLUICE_VERSION_MINOR) "." SLUICE_TEXT(
      SLUICE_VERSION_PATCH);
}

std::string to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kDoesNotFit:
      return "does_not_fit";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Error::Error(ErrorCode code, const std::string& message)
    : std::runtime_error(message), code_(code) {}
Error::~Error() = default;

StopJudge::~StopJudge() = default;
void StopJudge::over(StreamId /*stream*/) noexcept {}

}  // namespace sluice::v0
