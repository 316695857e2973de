// The file of API keys: one a line, with what its holder may do. The keys themselves are not in it.
//
//   # name   digest of the key    limits, rights
//   alice    sha256:2cf2...4e     requests=60/min tokens=20000/hour streams=4
//   board    sha256:98ea...c1     observe
//
// Empty lines and those that begin with '#' say nothing. Two lines may have one name: while a key
// is replaced, the old one and the new one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "web/access/digest.hpp"
#include "web/access/token_bucket.hpp"

namespace sluice::web {

struct KeyEntry {
  std::string name;  ///< 1 to 64 letters, digits, '-', '_', '.' and '@'
  Digest digest{};
  Rate requests;            ///< generations and other POST requests
  Rate tokens;              ///< of prompts and answers
  std::size_t streams = 0;  ///< waiting and running at the same time; 0: any number
  bool observes = false;    ///< may see the metrics, and everybody's sequences in `stats`
};

/// Throws Error(kInvalidArgument) that names the file, the line and what is wrong there; never
/// shows what stands in the place of a digest.
std::vector<KeyEntry> parse_key_file(std::string_view text, std::string_view file_name);
/// Likewise, and Error(kNotFound) for a file that can't be read.
std::vector<KeyEntry> read_key_file(const std::filesystem::path& path);

bool is_key_name(std::string_view name);
/// "60/min": the rate of a bucket of 60. Units: s, min, h (or sec, hour) and day. Empty when
/// malformed.
std::optional<Rate> parse_rate(std::string_view text);
/// What a line needs: name and digest.
std::string key_line(std::string_view name, std::string_view key);

}  // namespace sluice::web
