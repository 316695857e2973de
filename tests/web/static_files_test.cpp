#include "web/static_files.hpp"
#include "tests/support/paths.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "engine/base/error.hpp"
#include "web/embedded_files.hpp"

using namespace sluice::web;
namespace fs = std::filesystem;

namespace {

/// What is embedded of a file of the page: without comments and indentation, and of styles without
/// spaces.
std::string served(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (path.extension() == ".svg") return {std::istreambuf_iterator<char>(file), {}};
  std::string text;
  for (std::string line; std::getline(file, line);) {
    line.erase(0, line.find_first_not_of(" \t"));
    if (line.empty() || line.starts_with("//")) continue;
    if (line.starts_with("/*") && line.ends_with("*/")) continue;
    line.resize(std::min(line.find("  //"), line.size()));
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  if (path.extension() == ".css") {
    text = std::regex_replace(text, std::regex("([:;,{]) "), "$1");
    text = std::regex_replace(text, std::regex(" ([{}])"), "$1");
  }
  return text;
}

/// A folder with a secret beside it, removed at the end.
struct Folder {
  fs::path base = fs::temp_directory_path() / ("sluice-static-" + std::to_string(getpid()));
  fs::path root = base / "root";
  Folder() {
    fs::create_directories(root / "js");
    write(root / "index.html", "<p>hello");
    write(root / "js" / "app.js", "let a;");
    write(root / ".hidden", "hidden");
    write(base / "secret.txt", "secret");
    fs::create_symlink(base / "secret.txt", root / "link.txt");
    fs::create_directory_symlink(base, root / "up");
  }
  ~Folder() { fs::remove_all(base); }
  static void write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
};

HttpResponse get(const StaticFiles& files, const std::string& path, const std::string& tag = {}) {
  HttpRequest request;
  request.method = "GET";
  request.path = path;
  if (!tag.empty()) request.headers.emplace_back("if-none-match", tag);
  return files.get(request);
}

std::string header(const HttpResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return {};
}

}  // namespace

TEST_CASE("static files come from the folder with type and tag") {
  const Folder folder;
  const StaticFiles files(folder.root);
  const HttpResponse page = get(files, "/");
  CHECK(page.status == 200);
  CHECK(page.bytes() == "<p>hello");
  CHECK(page.content_type == "text/html; charset=utf-8");
  const HttpResponse script = get(files, "/js/app.js");
  CHECK(script.bytes() == "let a;");
  CHECK(script.content_type == "text/javascript; charset=utf-8");

  const std::string tag = header(page, "ETag");
  CHECK(tag.size() > 4);
  const HttpResponse again = get(files, "/", tag);
  CHECK(again.status == 304);
  CHECK(again.bytes().empty());
  CHECK(header(again, "ETag") == tag);

  Folder::write(folder.root / "index.html", "<p>other");
  const HttpResponse changed = get(files, "/", tag);
  CHECK(changed.status == 200);
  CHECK(changed.bytes() == "<p>other");
}

TEST_CASE("static files do not leave the folder") {
  const Folder folder;
  const StaticFiles files(folder.root);
  for (const char* path :
       {"/../secret.txt", "/js/../../secret.txt", "/link.txt", "/up/secret.txt", "/.hidden", "/js",
        "/js/", "//etc/passwd", "/..\\secret.txt", "/.", "/..", "/js/./app.js", "/nothing"}) {
    INFO(path);
    CHECK(get(files, path).status == 404);
  }
}

TEST_CASE("static files in the binary are those of the source tree") {
  const fs::path source = sluice::test::source_dir() / "static";
  const StaticFiles files({});
  std::string_view before;
  for (const EmbeddedFile& file : embedded_files()) {
    INFO(file.path);
    if (!file.path.starts_with("vendor/")) CHECK(served(source / file.path) == file.bytes);
    CHECK(get(files, "/" + std::string(file.path)).bytes() == file.bytes);
    CHECK(before < file.path);
    before = file.path;
  }
  CHECK(get(files, "/nothing").status == 404);
}

TEST_CASE("the code of the page stays below 60000 bytes and names no other host") {
  std::size_t bytes = 0;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path.starts_with("vendor/") || file.path.ends_with(".svg")) continue;
    INFO(file.path);
    bytes += file.bytes.size();
    for (std::size_t at = file.bytes.find("://"); at != std::string_view::npos;
         at = file.bytes.find("://", at + 1)) {
      CHECK(file.bytes.substr(at, 10) == "://www.w3.");  // names of XML dialects
    }
    if (file.path.ends_with(".html")) {
      CHECK(file.bytes.find("style=") == std::string_view::npos);
      CHECK(file.bytes.find("<script>") == std::string_view::npos);
    }
  }
  CHECK(bytes > 0);
  CHECK(bytes < 60000);
}

TEST_CASE("a folder of pages takes the libraries from the binary") {
  const Folder folder;
  const StaticFiles files(folder.root);
  const StaticFiles embedded({});
  CHECK(get(files, "/vendor/marked.js").status == get(embedded, "/vendor/marked.js").status);
  CHECK(get(files, "/vendor/nothing.js").status == 404);
  CHECK(get(files, "/favicon.svg").status == 404);
}

TEST_CASE("a static folder that is none is refused") {
  CHECK_THROWS_AS(StaticFiles("/no/such/folder"), sluice::Error);
}

TEST_CASE("entity tags are compared as lists and weakly") {
  const std::string tag = entity_tag("abc");
  CHECK(tag != entity_tag("abd"));
  CHECK(matches_tag(tag, tag));
  CHECK(matches_tag("\"x\", W/" + tag + " , \"y\"", tag));
  CHECK(matches_tag("*", tag));
  CHECK_FALSE(matches_tag("", tag));
  CHECK_FALSE(matches_tag("\"x\"", tag));
}

TEST_CASE("content types follow the extension") {
  CHECK(content_type_of("a.svg") == "image/svg+xml");
  CHECK(content_type_of("a.woff2") == "font/woff2");
  CHECK(content_type_of("a.css") == "text/css; charset=utf-8");
  CHECK(content_type_of("a.json") == "application/json");
  CHECK(content_type_of("a.png") == "image/png");
  CHECK(content_type_of("a.ico") == "image/x-icon");
  CHECK(content_type_of("a") == "application/octet-stream");
}
