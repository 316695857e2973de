#include "web/access/key_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <utility>

#include "engine/base/error.hpp"

namespace sluice::web {
namespace {

constexpr std::string_view kScheme = "sha256:";
constexpr std::size_t kMostKeys = 10'000;

struct Place {
  std::string_view file;
  std::size_t line = 0;
};

[[noreturn]] void fail(const Place& place, std::string_view why) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{}:{}: {}", place.file, place.line, why));
}

/// The next word; takes it away. Empty at the end.
std::string_view take_word(std::string_view& line) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = line.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return line = {};
  const std::size_t end = std::min(line.find_first_of(kBlank, begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

/// A whole number from 1 to 4294967295.
std::optional<std::uint32_t> parse_count(std::string_view text) {
  std::uint32_t count = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, count);
  if (parsed.ec != std::errc() || parsed.ptr != end || count == 0) return std::nullopt;
  return count;
}

void read_option(std::string_view word, const Place& place, KeyEntry& entry) {
  if (word == "observe") {
    entry.observes = true;
    return;
  }
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = word.substr(std::min(equals + 1, word.size()));
  if (name == "requests" || name == "tokens") {
    const auto rate = parse_rate(value);
    if (!rate) {
      fail(place,
           fmt::format("{} needs a whole number and a time, like 60/min (s, min, h, day).", name));
    }
    (name == "requests" ? entry.requests : entry.tokens) = *rate;
  } else if (name == "streams") {
    const auto streams = parse_count(value);
    if (!streams) fail(place, "streams needs a whole number above 0.");
    entry.streams = *streams;
  } else {
    fail(place,
         "after the digest there may be requests=60/min, tokens=20000/hour, streams=4 and "
         "observe.");
  }
}

KeyEntry read_line(std::string_view name, std::string_view rest, const Place& place) {
  KeyEntry entry;
  if (!is_key_name(name)) {
    fail(place, "the name of a key has 1 to 64 letters, digits, '-', '_', '.' and '@'.");
  }
  entry.name = name;
  const std::string_view digest = take_word(rest);
  const auto read =
      digest.starts_with(kScheme) ? digest_from_hex(digest.substr(kScheme.size())) : std::nullopt;
  if (!read) {
    fail(place,
         "behind the name comes \"sha256:\" and 64 hexadecimal digits, as `sluice key new "
         "NAME` prints them.");
  }
  entry.digest = *read;
  for (auto word = take_word(rest); !word.empty(); word = take_word(rest)) {
    read_option(word, place, entry);
  }
  return entry;
}

}  // namespace

std::vector<KeyEntry> parse_key_file(std::string_view text, std::string_view file_name) {
  std::vector<KeyEntry> entries;
  Place place{file_name};
  while (!text.empty()) {
    ++place.line;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view name = take_word(line);
    if (name.empty() || name.starts_with('#')) continue;
    KeyEntry entry = read_line(name, line, place);
    for (const KeyEntry& other : entries) {
      if (other.digest == entry.digest) fail(place, "this key is in the file already.");
    }
    if (entries.size() == kMostKeys) fail(place, fmt::format("there are over {} keys.", kMostKeys));
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} has no keys, so nobody could use the server; `sluice key new NAME` "
                            "makes one.",
                            file_name));
  }
  return entries;
}

std::vector<KeyEntry> read_key_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("The file of API keys {} can't be read; check the path and its rights.",
                            path.string()));
  }
  return parse_key_file(text, path.string());
}

bool is_key_name(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  return !name.empty() && name.size() <= kLongest &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.' || c == '@';
         });
}

std::optional<Rate> parse_rate(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"s", 1.0}, {"sec", 1.0}, {"min", 60.0}, {"h", 3600.0}, {"hour", 3600.0}, {"day", 86400.0}};
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto amount = parse_count(text.substr(0, slash));
  if (!amount) return std::nullopt;
  for (const auto& [unit, seconds] : kUnits) {
    if (text.substr(slash + 1) == unit) return Rate{1.0 * *amount, *amount / seconds};
  }
  return std::nullopt;
}

std::string key_line(std::string_view name, std::string_view key) {
  return fmt::format("{} {}{}", name, kScheme, to_hex(digest_of(key)));
}

}  // namespace sluice::web
