#include "engine/formats/gguf_split.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNumberKey = "split.no";  // counted from 0
constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kTensorsKey = "split.tensors.count";
constexpr std::string_view kExtension = ".gguf";

std::optional<std::int64_t> integer(const MetadataMap& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::string part_suffix(std::int64_t number, std::int64_t count) {
  return fmt::format("-{:05}-of-{:05}{}", number, count, kExtension);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Name before "-00001-of-00003.gguf", or nothing when the name has another form.
std::optional<std::string> stem_of_part(const std::string& name) {
  static constexpr std::string_view kForm = "-#####-of-#####.gguf";
  if (name.size() <= kForm.size()) return std::nullopt;
  const std::string_view end = std::string_view(name).substr(name.size() - kForm.size());
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] == '#' ? !is_digit(end[i]) : end[i] != kForm[i]) return std::nullopt;
  }
  return name.substr(0, name.size() - kForm.size());
}

/// Where the parts must be; an error when one is not there.
std::vector<fs::path> find_parts(const fs::path& path, std::int64_t number, std::int64_t count) {
  const std::string name = path.filename().string();
  const auto stem = stem_of_part(name);
  if (!stem || !name.ends_with(part_suffix(number + 1, count))) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} is part {} of a model in {} files, and the others can't be found "
                            "by its name; put all parts into one folder, named like {}.",
                            path.string(), number + 1, count, "NAME" + part_suffix(1, count)));
  }
  std::vector<fs::path> parts;
  std::vector<std::string> missing;
  std::size_t num_missing = 0;
  constexpr std::size_t kNamed = 4;
  for (std::int64_t i = 1; i <= count; ++i) {
    parts.push_back(path.parent_path() / (*stem + part_suffix(i, count)));
    std::error_code ignored;
    if (fs::exists(parts.back(), ignored)) continue;
    if (++num_missing <= kNamed) missing.push_back(parts.back().filename().string());
  }
  if (num_missing == 0) return parts;
  throw Error(
      ErrorCode::kNotFound,
      fmt::format("{} is part {} of a model in {} files, but {} of them {} missing: {}{}; "
                  "put them into the same folder.",
                  path.string(), number + 1, count, num_missing, num_missing == 1 ? "is" : "are",
                  fmt::join(missing, ", "), num_missing > kNamed ? ", ..." : ""));
}

[[noreturn]] void mismatch(const fs::path& path, const std::string& fault) {
  throw Error(ErrorCode::kCorrupt,
              fmt::format("{}: {}; the parts do not belong together or are damaged, fetch them "
                          "again.",
                          path.string(), fault));
}

struct Place {
  std::int64_t number = 0;
  std::int64_t count = 1;
};

/// What a file says about its place; a count of 1 when it says nothing.
Place place_of(const GgufPart& part, const fs::path& path) {
  if (!part.metadata.contains(kCountKey)) return {};
  const auto count = integer(part.metadata, kCountKey);
  const auto number = integer(part.metadata, kNumberKey);
  constexpr std::int64_t kMostParts = 99999;  // what the names have digits for
  if (!count || *count < 0 || *count > kMostParts) {
    mismatch(path, fmt::format("{} is not a number of files", kCountKey));
  }
  if (*count <= 1) return {};
  if (!number || *number < 0 || *number >= *count) {
    mismatch(path, fmt::format("{} is not a part of {}", kNumberKey, *count));
  }
  return {*number, *count};
}

void check_together(const std::vector<GgufPart>& parts, const std::vector<fs::path>& paths) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Place place = place_of(parts[i], paths[i]);
    if (place.count != static_cast<std::int64_t>(parts.size()) ||
        place.number != static_cast<std::int64_t>(i)) {
      mismatch(paths[i], fmt::format("it says to be part {} of {}", place.number + 1, place.count));
    }
    for (const TensorView& tensor : parts[i].tensors) {
      if (!names.insert(tensor.name).second) {
        mismatch(paths[i], fmt::format("tensor {} is in two parts", quote_text(tensor.name)));
      }
    }
  }
  const auto total = integer(parts.front().metadata, kTensorsKey);
  if (total && *total != static_cast<std::int64_t>(names.size())) {
    mismatch(paths.front(), fmt::format("{} is {}, but all parts together hold {} tensors",
                                        kTensorsKey, *total, names.size()));
  }
}

}  // namespace

std::vector<GgufPart> read_all_gguf_parts(const fs::path& path) {
  std::vector<GgufPart> parts;
  parts.push_back(read_gguf_part(path));
  const Place place = place_of(parts.front(), path);
  if (place.count > 1) {
    const std::vector<fs::path> paths = find_parts(path, place.number, place.count);
    parts.clear();
    for (const fs::path& part : paths) parts.push_back(read_gguf_part(part));
    check_together(parts, paths);
  }
  std::erase_if(parts.front().metadata,
                [](const auto& entry) { return entry.first.starts_with("split."); });
  return parts;
}

fs::path first_gguf_part(const fs::path& path) {
  const std::string name = path.filename().string();
  const auto stem = stem_of_part(name);
  if (!stem) return path;
  const std::string count = name.substr(name.size() - kExtension.size() - 5, 5);
  return path.parent_path() / fmt::format("{}-00001-of-{}{}", *stem, count, kExtension);
}

}  // namespace sluice
