// sluice key: what it prints, and the file it keeps.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/process.hpp"
#include "web/access/key_file.hpp"

namespace fs = std::filesystem;
using sluice::test::Process;

namespace {

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

Result run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), SLUICE_PROGRAM);
  Process process(std::move(arguments), "");
  const int code = process.wait(std::chrono::seconds(60));
  return {code, process.out(), process.err()};
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("key new keeps the digest in the file and prints the key") {
  const fs::path path =
      fs::temp_directory_path() / ("sluice-key-new-" + std::to_string(getpid()) + ".txt");
  const Result first =
      run({"key", "new", "alice", "--requests", "60/min", "--file", path.string()});
  REQUIRE(first.code == 0);
  const std::string key = first.out.substr(0, first.out.find('\n'));
  CHECK(sluice::web::has_form_of_key(key));
  CHECK(first.out == key + "\n");
  CHECK(first.err.find(key) == std::string::npos);
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0600U);

  // A line that somebody left without its end stays whole.
  std::ofstream(path, std::ios::app) << "# no newline behind this";
  REQUIRE(run({"key", "new", "bob", "--observe", "--file", path.string()}).code == 0);
  CHECK(text_of(path).find(key) == std::string::npos);
  const auto entries = sluice::web::read_key_file(path);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].name == "alice");
  CHECK(entries[0].digest == sluice::web::digest_of(key));
  CHECK(entries[0].requests.amount == 60.0);
  CHECK(entries[1].observes);
  fs::remove(path);
}

TEST_CASE("key new says what is wrong and leaves the file alone") {
  const std::string nowhere = "/no/such/folder/keys.txt";
  CHECK(run({"key", "new", "al ice"}).code == 2);
  CHECK(run({"key", "new", "alice", "--tokens", "many"}).code == 2);
  CHECK(run({"key", "new", "alice", "--tokens", "many"}).err.find("60/min") != std::string::npos);
  CHECK(run({"key", "new", "alice", "--file", nowhere}).code == 1);
  CHECK(run({"key", "new"}).code == 2);
  CHECK(run({"key"}).code == 2);
  const Result shown = run({"key", "new", "alice"});
  CHECK(shown.code == 0);
  CHECK(shown.out.find("sluice-") != std::string::npos);
  CHECK(shown.out.find("alice sha256:") != std::string::npos);
}
