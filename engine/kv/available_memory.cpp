// What Linux says about memory that can still be taken.
#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "engine/kv/memory_plan.hpp"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// The first number in a file; empty for "max" or when the file can't be read.
std::optional<std::size_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::size_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// The number after `key` at the beginning of a line, as in /proc/meminfo and memory.stat.
std::optional<std::size_t> field_in(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    std::istringstream rest(line.substr(key.size()));
    std::size_t value = 0;
    if (rest >> value) return value;
  }
  return std::nullopt;
}

struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  ///< field of memory.stat: file pages that can be dropped at once
};

constexpr CgroupFiles kVersion2{"memory.max", "memory.current", "inactive_file "};
constexpr CgroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                                "total_inactive_file "};

/// What one group may still take; no limit: the largest number.
std::size_t room_in_group(const fs::path& folder, const CgroupFiles& files) {
  const std::optional<std::size_t> limit = number_in(folder / files.limit);
  if (!limit) return std::numeric_limits<std::size_t>::max();
  const std::size_t usage = number_in(folder / files.usage).value_or(0);
  const std::size_t reclaimable = field_in(folder / "memory.stat", files.reclaimable).value_or(0);
  const std::size_t used = usage - std::min(usage, reclaimable);
  return *limit - std::min(*limit, used);
}

/// The tightest limit from the process's group up to the mount point. Inside a container the
/// group's path may be the host's: the folders that do not exist simply do not count.
std::size_t room_in_groups(const fs::path& mount, const fs::path& group, const CgroupFiles& files) {
  std::size_t room = room_in_group(mount, files);
  fs::path folder = mount;
  for (const fs::path& part : group.relative_path()) {
    folder /= part;
    room = std::min(room, room_in_group(folder, files));
  }
  return room;
}

/// Path of the process's group: version 2 has the line "0::/path", version 1 "4:memory:/path".
std::string group_path(const fs::path& root, const std::string& controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    if (line.substr(first + 1, second - first - 1) == controller) return line.substr(second + 1);
  }
  return "/";
}

}  // namespace

std::size_t available_memory_bytes(const fs::path& root) {
  const std::size_t machine =
      1024 * field_in(root / "proc/meminfo", "MemAvailable:").value_or(1024 * 1024);
  const std::size_t version2 =
      room_in_groups(root / "sys/fs/cgroup", group_path(root, ""), kVersion2);
  const std::size_t version1 =
      room_in_groups(root / "sys/fs/cgroup/memory", group_path(root, "memory"), kVersion1);
  return std::min({machine, version2, version1});
}

}  // namespace sluice
