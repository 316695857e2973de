// Access to the JSON of untrusted files, with errors that name file and place.
#pragma once

#include <simdjson.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// A parsed file; the elements point into it.
class JsonFile {
 public:
  /// Throws Error: kNotFound, kCorrupt (not JSON, too deep).
  explicit JsonFile(const std::filesystem::path& path);
  /// JSON that is a part of the file, copied. `what` names the part in messages. Throws likewise.
  JsonFile(const std::filesystem::path& path, std::string_view text, std::string_view what);

  simdjson::dom::element root() const { return root_; }
  const std::filesystem::path& path() const { return path_; }

  [[noreturn]] void corrupt(const std::string& fault) const;
  [[noreturn]] void unsupported(const std::string& what) const;

  // Required members: throw Error(kCorrupt), naming the key, when absent or of another type.
  std::string_view text(simdjson::dom::element object, std::string_view key) const;
  std::uint64_t count(simdjson::dom::element object, std::string_view key) const;
  simdjson::dom::array array(simdjson::dom::element object, std::string_view key) const;
  simdjson::dom::object object(simdjson::dom::element object, std::string_view key) const;

 private:
  std::filesystem::path path_;
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
};

// Optional members: nothing when absent, null or of another type.
std::optional<simdjson::dom::element> member(simdjson::dom::element object, std::string_view key);
std::optional<std::string_view> text_member(simdjson::dom::element object, std::string_view key);
bool flag_member(simdjson::dom::element object, std::string_view key, bool otherwise);

}  // namespace sluice
