// The one exception type of loading and configuration.
//
// Nothing in the step path throws; there, failures are values (see StepResult, ErrorEvent).
#pragma once

#include <stdexcept>
#include <string>

namespace sluice {

/// What kind of thing went wrong; decides exit codes and HTTP status, not the wording.
enum class ErrorCode {
  kInvalidArgument,  ///< a setting or request that can never work
  kNotFound,         ///< a file or name that does not exist
  kCorrupt,          ///< input that contradicts itself or its format
  kUnsupported,      ///< well-formed, but not something this build can do
  kDoesNotFit,       ///< needs more memory or positions than there are
  kIo,               ///< the operating system refused
  kInternal,         ///< a broken promise of our own
};

/// Thrown by loading and configuration. `what()` is one sentence for a person: what is wrong,
/// where (file, key, tensor, flag), and what to do about it where that is known.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace sluice
