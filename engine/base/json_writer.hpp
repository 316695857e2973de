// Writes JSON text. Cannot fail on any input: invalid UTF-8 becomes U+FFFD, NaN and infinity
// become null, and unbalanced calls are a programmer's error caught by an assertion.
//
// Worked example:
//   JsonWriter json;
//   json.begin_object().key("type").value("done").key("n").value(3).end_object();
//   json.str()  ->  {"type":"done","n":3}
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag);
  JsonWriter& value(double number);
  JsonWriter& value(float number);  ///< shortest form that reads back as the same float
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(std::uint64_t number);
  JsonWriter& value(std::int32_t number) { return value(static_cast<std::int64_t>(number)); }
  JsonWriter& value(std::uint32_t number) { return value(static_cast<std::uint64_t>(number)); }
  JsonWriter& null();
  /// Text that is JSON already.
  JsonWriter& raw(std::string_view json);

  /// key and value in one.
  template <class T>
  JsonWriter& field(std::string_view name, const T& v) {
    key(name);
    return value(v);
  }

  const std::string& str() const { return out_; }
  /// Gives the text away and starts anew.
  std::string take();
  void clear();

 private:
  void begin_value();
  void separate();  ///< writes the comma that is due before a key or a value
  std::string out_;
  std::vector<char> stack_;  ///< '{' or '[' for every open object or array
  bool need_comma_ = false;
  bool after_key_ = false;
};

}  // namespace sluice
