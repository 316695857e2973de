#include "web/process_usage.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace sluice::web {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The numbers of /proc/self/stat from the third field on (proc(5) counts from 1): what stands
/// before is the program's name in parentheses, which may hold anything.
std::vector<std::string> stat_fields(const std::string& stat) {
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(stat.substr(name_end + 1));
  return {std::istream_iterator<std::string>(rest), {}};
}

double number(const std::vector<std::string>& fields, std::size_t proc_field) {
  try {
    return std::stod(fields.at(proc_field - 3));
  } catch (const std::exception&) {
    return 0.0;
  }
}

/// Seconds since 1970 at which the machine started.
double boot_seconds(const std::string& stat) {
  const std::size_t at = stat.find("\nbtime ");
  return at == std::string::npos ? 0.0 : std::strtod(stat.c_str() + at + 7, nullptr);
}

std::size_t entries_of(const std::filesystem::path& folder) {
  std::error_code error;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    ++count;
  }
  return count;
}

std::size_t max_open_files() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<std::size_t>(limit.rlim_cur) : 0;
}

}  // namespace

std::optional<ProcessUsage> process_usage(const std::filesystem::path& proc) {
  const std::vector<std::string> fields = stat_fields(read_file(proc / "self" / "stat"));
  if (fields.size() < 22) return std::nullopt;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  ProcessUsage usage;
  usage.cpu_seconds = (number(fields, 14) + number(fields, 15)) / ticks;
  usage.threads = static_cast<std::size_t>(number(fields, 20));
  usage.start_seconds = boot_seconds(read_file(proc / "stat")) + number(fields, 22) / ticks;
  usage.virtual_bytes = static_cast<std::size_t>(number(fields, 23));
  usage.resident_bytes = static_cast<std::size_t>(number(fields, 24)) * page;
  usage.open_files = entries_of(proc / "self" / "fd");
  usage.max_files = max_open_files();
  return usage;
}

}  // namespace sluice::web
