// Takes the arguments of builtins apart the way Python binds them to parameters.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "engine/chat/jinja/value.hpp"

namespace sluice::jinja {

class Interpreter;

/// Binds positional and named arguments to `parameters`; throws Failure(kType) for what is left
/// over or given twice. The arguments must outlive it.
class BoundArguments {
 public:
  static constexpr std::size_t kMaxParameters = 8;

  BoundArguments(std::string_view function, const Arguments& arguments,
                 std::initializer_list<std::string_view> parameters, std::size_t required = 0);

  /// Null when not given.
  const Value* operator[](std::size_t index) const { return values_[index]; }
  /// Null when not given or none.
  const Value* value(std::size_t index) const;

  bool flag(std::size_t index, bool otherwise) const;
  std::int64_t integer(std::size_t index, std::int64_t otherwise) const;
  /// The text's bytes; throws when it is something else.
  const Text* text(std::size_t index) const;

 private:
  std::string_view function_;
  std::array<std::string_view, kMaxParameters> names_;
  std::array<const Value*, kMaxParameters> values_{};
};

}  // namespace sluice::jinja
