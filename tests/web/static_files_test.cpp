#include "web/static_files.hpp"
#include "tests/support/paths.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/base/error.hpp"
#include "web/embedded_files.hpp"

using namespace sluice::web;
namespace fs = std::filesystem;

namespace {

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
    std::ostringstream bytes;
    bytes << std::ifstream(source / file.path, std::ios::binary).rdbuf();
    CHECK(bytes.str() == file.bytes);
    CHECK(get(files, "/" + std::string(file.path)).bytes() == file.bytes);
    CHECK(before < file.path);
    before = file.path;
  }
  CHECK(get(files, "/nothing").status == 404);
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
