#include "web/exposition.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice::web {
namespace {

/// In a label's value a quotation mark is escaped as well, in HELP it is not.
std::string escape(std::string_view text, bool quotes) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || (c == '"' && quotes)) escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

void Exposition::begin(std::string_view name, std::string_view help, std::string_view type) {
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, escape(help, false), name, type);
}

void Exposition::histogram(std::string_view name, std::string_view help, const Histogram& values) {
  begin(name, help, "histogram");
  std::uint64_t up_to = 0;
  for (std::size_t i = 0; i < values.counts().size(); ++i) {
    up_to += values.counts()[i];
    const bool last = i == values.bounds().size();
    write(name_ + "_bucket", {{"le", last ? "+Inf" : fmt::format("{}", values.bounds()[i])}},
          fmt::format("{}", up_to));
  }
  write(name_ + "_sum", {}, fmt::format("{}", values.sum()));
  write(name_ + "_count", {}, fmt::format("{}", up_to));
}

void Exposition::write(std::string_view name, Labels labels, std::string_view value) {
  text_ += name;
  char before = '{';
  for (const auto& [label, content] : labels) {
    text_ += fmt::format("{}{}=\"{}\"", before, label, escape(content, true));
    before = ',';
  }
  if (labels.size() > 0) text_ += '}';
  text_ += fmt::format(" {}\n", value);
}

}  // namespace sluice::web
