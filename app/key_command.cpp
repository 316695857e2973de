// sluice key: makes keys for `sluice serve --api-keys`.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "app/cli.hpp"
#include "app/commands.hpp"
#include "engine/base/error.hpp"
#include "web/access/key_file.hpp"

namespace sluice::app {
namespace {

struct Options {
  std::string name;
  std::filesystem::path file;
  std::string requests;
  std::string tokens;
  std::string streams;
  bool observe = false;
};

std::string line_of(const Options& options, const std::string& key) {
  std::string line = web::key_line(options.name, key);
  if (!options.requests.empty()) line += " requests=" + options.requests;
  if (!options.tokens.empty()) line += " tokens=" + options.tokens;
  if (!options.streams.empty()) line += " streams=" + options.streams;
  if (options.observe) line += " observe";
  return line;
}

/// A new file belongs to its owner alone. A file that has no newline at its end gets one first.
void append_line(const std::filesystem::path& file, const std::string& line) {
  const auto fail = [&] {
    return Error(ErrorCode::kIo,
                 fmt::format("Can't write to {}; check the path and its rights.", file.string()));
  };
  const int made = open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (made < 0) throw fail();
  close(made);
  char last = '\n';
  {
    std::ifstream in(file, std::ios::binary);
    if (in.seekg(-1, std::ios::end)) in.get(last);
  }
  std::ofstream out(file, std::ios::binary | std::ios::app);
  out << (last == '\n' ? "" : "\n") << line << '\n' << std::flush;
  if (!out) throw fail();
}

int make_key(const Options& options) {
  if (!web::is_key_name(options.name)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("\"{}\" is no name for a key: use 1 to 64 letters, digits, '-', '_', "
                            "'.' and '@'.",
                            options.name));
  }
  const std::string key = web::new_key();
  const std::string line = line_of(options, key);
  web::parse_key_file(line, "The new line");  // finds what is wrong with the limits
  if (options.file.empty()) {
    fmt::print(
        "The key, shown this once:\n  {}\nIts line for the file of `sluice serve --api-keys`:\n"
        "  {}\n",
        key, line);
    return kOk;
  }
  append_line(options.file, line);
  fmt::print("{}\n", key);
  std::fflush(stdout);
  fmt::print(stderr,
             "This is the key, shown this once; its line is in {}. A running server takes it at "
             "SIGHUP.\n",
             options.file.string());
  return kOk;
}

}  // namespace

void add_key_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("key", "Make API keys for `sluice serve --api-keys`");
  command->require_subcommand(1);
  auto options = std::make_shared<Options>();
  CLI::App* make = command->add_subcommand("new", "Print a fresh key, once, and its line");
  make->add_option("name", options->name, "Whose key it is")->required();
  make->add_option("--file", options->file,
                   "Add the line to this file, which is made if needed; only the key is printed");
  make->add_option("--requests", options->requests, "Limit on requests, e.g. 60/min");
  make->add_option("--tokens", options->tokens,
                   "Limit on tokens of prompts and answers, e.g. 20000/hour");
  make->add_option("--streams", options->streams, "Streams at the same time, waiting or running");
  make->add_flag("--observe", options->observe,
                 "The holder may see /metrics, and everybody's sequences in X-ray");
  make->footer(
      "The file keeps a digest; the key itself is nowhere but on your screen.\n"
      "\nExamples:\n"
      "  sluice key new alice --requests 60/min --file keys.txt\n"
      "  sluice serve --api-keys keys.txt\n"
      "  curl -H \"Authorization: Bearer $KEY\" localhost:8080/v1/models");
  make->callback([options, &action] { action = [options] { return make_key(*options); }; });
}

}  // namespace sluice::app
