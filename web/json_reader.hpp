// Reads the fields of a JSON object one by one, with a sentence for whatever is wrong.
//
//   ObjectReader fields(object, "");
//   fields.number("temperature", 0, 10, request.sampling.temperature);
//   fields.finish();                  // names unknown fields
//   if (fields.failed()) ... fields.error()
//
// Only the first fault is kept; after it every call does nothing.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::web {

/// A value as it may appear in an error sentence: short, whole code points, in JSON notation.
std::string describe(simdjson::dom::element value);

class ObjectReader {
 public:
  /// Whether a field whose value is null counts as absent, or as a value of the wrong kind.
  enum class Nulls { kValues, kAbsent };

  /// `prefix` is what the names in sentences start with, e.g. "stop[1].".
  ObjectReader(simdjson::dom::object object, std::string prefix, Nulls nulls = Nulls::kValues);

  /// The value of a field, marked as known; empty when absent.
  std::optional<simdjson::dom::element> find(std::string_view name);

  // Each leaves `out` as it is when the field is absent, and fails when it is not of its kind or
  // range. Bounds are inclusive.
  void number(std::string_view name, double low, double high, float& out);
  void integer(std::string_view name, std::int64_t low, std::int64_t high, std::int64_t& out);
  void integer(std::string_view name, std::int64_t low, std::int64_t high, std::int32_t& out);
  void boolean(std::string_view name, bool& out);
  /// Bounds are in bytes.
  void text(std::string_view name, std::size_t shortest, std::size_t longest, std::string& out);

  /// "`name` must be `wanted`, not `found`."
  void mismatch(std::string_view name, std::string_view wanted, simdjson::dom::element found);
  void fail(std::string sentence);
  /// Fails when a field was never asked for, or is there twice.
  void finish();

  std::string label(std::string_view name) const { return "`" + prefix_ + std::string(name) + "`"; }
  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }

 private:
  simdjson::dom::object object_;
  std::string prefix_;
  Nulls nulls_;
  std::vector<std::string_view> known_;
  std::string error_;
};

}  // namespace sluice::web
