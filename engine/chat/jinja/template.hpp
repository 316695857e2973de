// Chat templates in Jinja, as models bring them along: parsed once, rendered for every prompt.
//
// Worked example:
//   const Template greeting = Template::parse("Hello {{ name | upper }}!", "greeting");
//   const RenderResult result = greeting.render(value_from_json(R"({"name": "Ada"})"), {});
//   result.text       ->  "Hello ADA!"
//   result.untrusted  ->  {6, 9}: these bytes came from the outside
//
// The reference is Jinja 3.1 with Hugging Face's settings (trim_blocks, lstrip_blocks, loop
// controls, the generation tag, tojson as json.dumps, raise_exception, strftime_now), in its
// immutable sandbox. Templates are hostile input: no attribute tricks, and Limits on everything.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/chat/jinja/budget.hpp"
#include "engine/chat/jinja/failure.hpp"
#include "engine/chat/jinja/value.hpp"

namespace sluice::jinja {

struct Tree;

struct RenderOptions {
  Limits limits = {};
  /// Lets templates change lists and dicts (append, update) and use the filter from_json. The
  /// reference refuses both, but published templates do it.
  bool relaxed = false;
  /// What strftime_now shows; none: the local time.
  std::optional<std::tm> now = std::nullopt;
};

struct RenderResult {
  std::string text;
  std::vector<ByteRange> untrusted;  ///< sorted, disjoint ranges of `text` from untrusted strings
};

/// Thrown by parse and render: code kInvalidArgument, what() with template, line and reason.
class TemplateError : public Error {
 public:
  TemplateError(const std::string& name, int line, FailureKind kind, const std::string& reason);

  int line() const noexcept { return line_; }
  FailureKind kind() const noexcept { return kind_; }
  /// The reason alone; for FailureKind::kRaised what the template said.
  const std::string& reason() const noexcept { return reason_; }

 private:
  int line_;
  FailureKind kind_;
  std::string reason_;
};

/// A parsed template. Immutable and cheap to copy; safe to use from any thread.
class Template {
 public:
  /// `name` is for messages. Throws TemplateError.
  static Template parse(std::string_view source, std::string name);

  /// `context` is a dict of variables. It is not changed. Throws TemplateError.
  RenderResult render(const Value& context, const RenderOptions& options) const;

 private:
  Template(std::shared_ptr<const Tree> tree, std::string name)
      : tree_(std::move(tree)), name_(std::move(name)) {}

  std::shared_ptr<const Tree> tree_;
  std::string name_;
};

}  // namespace sluice::jinja
