// The one exception of this library.
//
// Thrown where something is made or configured: Engine's constructor, plan(), Stream::change(),
// the web layer's constructor. Streams never throw: their failures are ErrorEvents.
#pragma once

#include <stdexcept>
#include <string>

#include "sluice/version.hpp"

namespace sluice {
namespace SLUICE_PUBLIC v0 {

/// What kind of thing went wrong; the wording is for people, this is for programs.
enum class ErrorCode {
  kInvalidArgument = 1,  ///< a setting or request that can never work
  kNotFound,             ///< a file or name that does not exist
  kCorrupt,              ///< input that contradicts itself or its format
  kUnsupported,          ///< well-formed, but not something this build can do
  kDoesNotFit,           ///< needs more memory or positions than there are
  kIo,                   ///< the operating system refused
  kInternal,             ///< a broken promise of the library's own
};

/// "invalid_argument", "not_found", ...
std::string to_string(ErrorCode code);

/// what() is one sentence for a person: what is wrong, where, and what to do about it where that
/// is known.
class Error : public std::runtime_error {
 public:
  /// An error of this kind with this sentence.
  Error(ErrorCode code, const std::string& message);
  ~Error() override;
  /// The kind.
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace v0
}  // namespace sluice
