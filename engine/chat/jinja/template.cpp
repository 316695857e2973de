#include "engine/chat/jinja/template.hpp"

#include <new>
#include <utility>

#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/parser.hpp"

namespace sluice::jinja {

TemplateError::TemplateError(const std::string& name, int line, FailureKind kind,
                             const std::string& reason)
    : Error(ErrorCode::kInvalidArgument,
            "template " + name + ", line " + std::to_string(line) + ": " + reason),
      line_(line),
      kind_(kind),
      reason_(reason) {}

Template Template::parse(std::string_view source, std::string name) {
  try {
    auto tree = std::make_shared<const Tree>(parse_template(source));
    return Template(std::move(tree), std::move(name));
  } catch (const SyntaxFailure& failure) {
    throw TemplateError(name, failure.line(), failure.kind(), failure.what());
  }
}

RenderResult Template::render(const Value& context, const RenderOptions& options) const {
  Interpreter interpreter(*tree_, options);
  try {
    Text text = interpreter.render(context);
    return {std::move(text.bytes), std::move(text.untrusted)};
  } catch (const Failure& failure) {
    throw TemplateError(name_, interpreter.line(), failure.kind(), failure.what());
  } catch (const std::bad_alloc&) {
    throw TemplateError(name_, interpreter.line(), FailureKind::kLimit, "out of memory");
  }
}

}  // namespace sluice::jinja
