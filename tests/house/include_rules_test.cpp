// The house has rules about who may use whom. This test reads every #include line and fails on
// the ones that break them; docs/architecture.md gives the reasons.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/paths.hpp"

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kFolders = {"kernels", "engine", "actors",   "web",   "embed",
                                           "include", "app",    "examples", "tests", "bench"};

struct Rule {
  std::set<std::string> project;       ///< folders of the project that may be included
  std::vector<std::string> forbidden;  ///< beginnings of library headers that may not be
};

// Headers of libraries and what they belong to.
const std::string kBoost = "boost/";
const std::string kCaf = "caf/";
const std::string kSimdjson = "simdjson";
const std::string kCuda = "cuda";

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> table = {
      {"kernels/cpu", {{"kernels"}, {kBoost, kCaf, kSimdjson, kCuda, "spdlog", "fmt"}}},
      {"kernels/cuda", {{"kernels"}, {kBoost, kCaf, kSimdjson, "spdlog", "fmt"}}},
      {"engine", {{"engine", "kernels"}, {kBoost, kCaf, kCuda, "spdlog"}}},
      {"actors", {{"actors", "engine"}, {kBoost, kSimdjson, kCuda}}},
      {"web", {{"web", "actors", "engine"}, {kCaf, kCuda}}},
      {"embed", {{"embed", "include", "web", "actors", "engine"}, {kSimdjson, kCuda}}},
      {"include", {{"include"}, {kBoost, kCaf, kSimdjson, kCuda, "spdlog", "fmt"}}},
      {"app", {{"app", "web", "actors", "engine", "kernels", "bench"}, {kCaf, kCuda}}},
      {"bench",
       {{"bench", "include", "embed", "app", "web", "actors", "engine", "kernels", "tests"}, {}}},
      {"tests",
       {{"tests", "include", "embed", "bench", "app", "web", "actors", "engine", "kernels"}, {}}},
      {"examples", {{"include"}, {kSimdjson, kCuda, "spdlog", "fmt"}}},
  };
  return table;
}

/// Finer rules inside engine/: a part may include itself and what stands below it.
const std::map<std::string, std::set<std::string>>& engine_parts() {
  static const std::map<std::string, std::set<std::string>> table = {
      {"base", {}},
      {"formats", {"base"}},
      {"tokenizer", {"base", "formats"}},
      {"convert", {"base", "formats", "tokenizer"}},
      {"chat", {"base", "formats", "tokenizer"}},
      {"sampling", {"base"}},
      {"model", {"base", "formats", "sampling"}},
      {"kv", {"base", "formats", "model"}},
      {"backend", {"base", "formats", "model", "sampling"}},
      {"evaluate", {"base", "formats", "model", "sampling", "backend"}},
      {"schedule", {"base", "formats", "model", "sampling", "kv", "backend"}},
      {"stream", {"base", "formats", "tokenizer", "chat", "sampling", "kv", "backend", "schedule"}},
  };
  return table;
}

struct Include {
  std::string file;  ///< relative to the root
  int line = 0;
  std::string target;
};

bool is_source(const fs::path& path) {
  static const std::set<std::string> kExtensions = {".hpp", ".cpp", ".cu", ".cuh", ".h", ".in"};
  return kExtensions.contains(path.extension().string());
}

std::vector<Include> includes_of(const fs::path& root, const fs::path& path) {
  static const std::regex kLine(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::vector<Include> found;
  std::ifstream in(path);
  std::string text;
  for (int line = 1; std::getline(in, text); ++line) {
    std::smatch match;
    if (std::regex_search(text, match, kLine)) {
      found.push_back({fs::relative(path, root).string(), line, match[1]});
    }
  }
  return found;
}

std::vector<Include> all_includes() {
  const fs::path root = sluice::test::source_dir();
  std::vector<Include> found;
  for (const std::string& folder : kFolders) {
    for (auto it = fs::recursive_directory_iterator(root / folder);
         it != fs::recursive_directory_iterator(); ++it) {
      if (it->path().filename() == "node_modules") {
        it.disable_recursion_pending();
      } else if (it->is_regular_file() && is_source(it->path())) {
        for (Include& include : includes_of(root, it->path())) found.push_back(std::move(include));
      }
    }
  }
  return found;
}

std::string first_part(const std::string& path) {
  return path.substr(0, path.find('/'));
}

/// Public headers are included as "sluice/engine.hpp".
std::string folder_of(const std::string& target) {
  const std::string first = first_part(target);
  return first == "sluice" ? "include" : first;
}

std::string second_part(const std::string& path) {
  const std::size_t begin = path.find('/') + 1;
  return path.substr(begin, path.find('/', begin) - begin);
}

const Rule& rule_for(const std::string& file) {
  const std::string first = first_part(file);
  return rules().at(first == "kernels" ? first + "/" + second_part(file) : first);
}

/// The headers that exist for a library may show it.
bool is_bridge(const std::string& file, const std::string& library) {
  return (file == "include/sluice/caf.hpp" && library == kCaf) ||
         (file == "include/sluice/asio.hpp" && library == kBoost) ||
         (file == "include/sluice/web.hpp" && library == kBoost);
}

/// Why an include is not allowed; empty when it is.
std::string breach(const Include& include) {
  const Rule& rule = rule_for(include.file);
  const std::string first = folder_of(include.target);
  const bool of_project = include.target.find('/') != std::string::npos &&
                          std::count(kFolders.begin(), kFolders.end(), first) > 0;
  if (of_project && !rule.project.contains(first)) {
    return first_part(include.file) + "/ may not use " + first + "/";
  }
  if (of_project && first == "engine" && first_part(include.file) == "engine") {
    const std::string from = second_part(include.file);
    const std::string to = second_part(include.target);
    if (from != to && !engine_parts().at(from).contains(to)) {
      return "engine/" + from + " may not use engine/" + to;
    }
  }
  for (const std::string& beginning : rule.forbidden) {
    if (!of_project && include.target.starts_with(beginning) &&
        !is_bridge(include.file, beginning)) {
      return first_part(include.file) + "/ may not use <" + include.target + ">";
    }
  }
  return {};
}

}  // namespace

TEST_CASE("every folder includes only what stands below it") {
  const std::vector<Include> includes = all_includes();
  REQUIRE(includes.size() > 100);
  for (const Include& include : includes) {
    const std::string reason = breach(include);
    INFO(include.file << ":" << include.line << " includes " << include.target << ": " << reason);
    CHECK(reason.empty());
  }
}

TEST_CASE("the include rules catch a breach") {
  CHECK(breach({"engine/kv/kv_manager.cpp", 1, "caf/all.hpp"}) ==
        "engine/ may not use <caf/all.hpp>");
  CHECK(breach({"engine/kv/kv_manager.cpp", 1, "actors/engine.hpp"}) ==
        "engine/ may not use actors/");
  CHECK(breach({"engine/kv/kv_manager.cpp", 1, "engine/stream/events.hpp"}) ==
        "engine/kv may not use engine/stream");
  CHECK(breach({"web/server.cpp", 1, "caf/actor.hpp"}) == "web/ may not use <caf/actor.hpp>");
  CHECK(breach({"kernels/cpu/matmul.cpp", 1, "engine/base/types.hpp"}) ==
        "kernels/ may not use engine/");
  CHECK(breach({"include/sluice/engine.hpp", 1, "caf/actor.hpp"}) ==
        "include/ may not use <caf/actor.hpp>");
  CHECK(breach({"include/sluice/engine.hpp", 1, "engine/stream/events.hpp"}) ==
        "include/ may not use engine/");
  CHECK(breach({"examples/callback/main.cpp", 1, "actors/engine.hpp"}) ==
        "examples/ may not use actors/");
  CHECK(breach({"include/sluice/caf.hpp", 1, "caf/actor.hpp"}).empty());
  CHECK(breach({"examples/callback/main.cpp", 1, "sluice/engine.hpp"}).empty());
  CHECK(breach({"web/server.cpp", 1, "actors/stream_service.hpp"}).empty());
  CHECK(breach({"engine/kv/kv_manager.cpp", 1, "vector"}).empty());
}

TEST_CASE("headers guard themselves once") {
  const fs::path root = sluice::test::source_dir();
  for (const std::string& folder : kFolders) {
    for (auto it = fs::recursive_directory_iterator(root / folder);
         it != fs::recursive_directory_iterator(); ++it) {
      if (it->path().filename() == "node_modules") {
        it.disable_recursion_pending();
        continue;
      }
      if (it->path().extension() != ".hpp") continue;
      std::ifstream in(it->path());
      const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
      INFO(it->path().string());
      CHECK(text.find("#pragma once") != std::string::npos);
    }
  }
}
