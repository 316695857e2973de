#include "engine/chat/jinja/arguments.hpp"

#include <algorithm>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/failure.hpp"

namespace sluice::jinja {

BoundArguments::BoundArguments(std::string_view function, const Arguments& arguments,
                               std::initializer_list<std::string_view> parameters,
                               std::size_t required)
    : function_(function) {
  const std::string name(function);
  std::copy(parameters.begin(), parameters.end(), names_.begin());
  if (arguments.positional.size() > parameters.size()) {
    type_error(name + "() takes at most " + std::to_string(parameters.size()) + " arguments, got " +
               std::to_string(arguments.positional.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = &arguments.positional[i];
  }
  for (const auto& [keyword, value] : arguments.keywords) {
    const auto parameter = std::find(parameters.begin(), parameters.end(), keyword);
    if (parameter == parameters.end()) {
      type_error(name + "() got an unexpected keyword argument '" + keyword + "'");
    }
    const auto index = static_cast<std::size_t>(parameter - parameters.begin());
    if (values_[index] != nullptr) {
      type_error(name + "() got multiple values for argument '" + keyword + "'");
    }
    values_[index] = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) {
      type_error(name + "() is missing its argument '" + std::string(names_[i]) + "'");
    }
  }
}

const Value* BoundArguments::value(std::size_t index) const {
  const Value* value = values_[index];
  return value != nullptr && !value->is_none() ? value : nullptr;
}

bool BoundArguments::flag(std::size_t index, bool otherwise) const {
  return values_[index] != nullptr ? values_[index]->truthy() : otherwise;
}

std::int64_t BoundArguments::integer(std::size_t index, std::int64_t otherwise) const {
  const Value* value = values_[index];
  if (value == nullptr) return otherwise;
  require_defined(*value);
  if (!value->is_integral()) {
    type_error(std::string(function_) + "() needs an integer for '" + std::string(names_[index]) +
               "', not " + value->type_name());
  }
  return value->as_int();
}

const Text* BoundArguments::text(std::size_t index) const {
  const Value* value = values_[index];
  if (value == nullptr) return nullptr;
  require_defined(*value);
  if (!value->is_text()) {
    type_error(std::string(function_) + "() needs a string for '" + std::string(names_[index]) +
               "', not " + value->type_name());
  }
  return &value->as_text();
}

}  // namespace sluice::jinja
