// Where tests find reference data that is not part of the repository.
//
// The data lies in a folder `shared` beside the checkout, or where SLUICE_SHARED points. Tests
// that need it skip with a message when it is absent:
//
//   const auto dir = sluice::test::shared_dir("reference/models");
//   if (!dir) return;  // a warning has been printed
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "tests/support/paths.hpp"

namespace sluice::test {

inline std::optional<std::filesystem::path> shared_dir(const std::string& relative) {
  namespace fs = std::filesystem;
  const char* from_environment = std::getenv("SLUICE_SHARED");
  const fs::path root = from_environment != nullptr ? fs::path(from_environment)
                                                    : source_dir().parent_path() / "shared";
  const fs::path path = root / relative;
  if (fs::exists(path)) return path;
  WARN("skipped: no reference data at " << path.string());
  return std::nullopt;
}

}  // namespace sluice::test
