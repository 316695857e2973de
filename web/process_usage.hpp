// What this process takes of the machine, from /proc.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace sluice::web {

struct ProcessUsage {
  double cpu_seconds = 0.0;    ///< user and system, all threads, since the start
  double start_seconds = 0.0;  ///< when it started, as Unix time
  std::size_t resident_bytes = 0;
  std::size_t virtual_bytes = 0;
  std::size_t threads = 0;
  std::size_t open_files = 0;  ///< descriptors, sockets among them
  std::size_t max_files = 0;   ///< soft limit
};

/// Empty where /proc can't be read. `proc` is for tests.
std::optional<ProcessUsage> process_usage(const std::filesystem::path& proc = "/proc");

}  // namespace sluice::web
