// How the parts of the template engine report that they cannot go on. Template turns a Failure
// into a TemplateError by adding the template's name and line.
#pragma once

#include <stdexcept>
#include <string>

namespace sluice::jinja {

enum class FailureKind {
  kSyntax,     ///< the template text is not valid
  kRaised,     ///< the template itself refused, with raise_exception
  kUndefined,  ///< something that does not exist was used
  kType,       ///< an operation on a value of the wrong type
  kValue,      ///< right type, impossible value (also division by zero)
  kSecurity,   ///< the sandbox refused
  kRuntime,    ///< filters, tests and targets that do not exist
  kLimit,      ///< one of Limits was reached
};

class Failure : public std::runtime_error {
 public:
  Failure(FailureKind kind, const std::string& reason) : std::runtime_error(reason), kind_(kind) {}
  FailureKind kind() const noexcept { return kind_; }

 private:
  FailureKind kind_;
};

/// The template text is wrong at a known line.
class SyntaxFailure : public Failure {
 public:
  SyntaxFailure(const std::string& reason, int line)
      : Failure(FailureKind::kSyntax, reason), line_(line) {}
  int line() const noexcept { return line_; }

 private:
  int line_;
};

[[noreturn]] inline void type_error(const std::string& reason) {
  throw Failure(FailureKind::kType, reason);
}
[[noreturn]] inline void value_error(const std::string& reason) {
  throw Failure(FailureKind::kValue, reason);
}

}  // namespace sluice::jinja
