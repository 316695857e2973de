// The program as a user meets it: exit codes, sentences on stderr, results on stdout.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "kernels/cuda/device_info.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/shared_data.hpp"

using sluice::test::Process;
using sluice::test::shared_dir;
using Seconds = std::chrono::seconds;

namespace {

const std::string kModel = (sluice::test::source_dir() / "models/demo-q8_0.gguf").string();

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

Result run(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), SLUICE_PROGRAM);
  Process process(std::move(arguments), input);
  const int code = process.wait(Seconds(120));
  return {code, process.out(), process.err()};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A port of the loopback address that somebody already listens on.
class TakenPort {
 public:
  TakenPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(socket_, 1) == 0);
    socklen_t size = sizeof address;
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~TakenPort() { close(socket_); }
  std::string port() const { return std::to_string(port_); }

 private:
  int socket_;
  unsigned port_ = 0;
};

}  // namespace

TEST_CASE("help teaches and wrong arguments are named") {
  const Result help = run({"--help"});
  CHECK(help.code == 0);
  for (const char* word : {"serve", "chat", "generate", "plan", "inspect", "Examples"}) {
    CHECK(contains(help.out, word));
  }
  for (const char* command : {"serve", "chat", "generate", "plan", "inspect"}) {
    const Result one = run({command, "--help"});
    CHECK(one.code == 0);
    CHECK(contains(one.out, "Example"));
  }
  CHECK(run({}).code == 2);
  const Result bad = run({"generate", "--no-such-flag"});
  CHECK(bad.code == 2);
  CHECK(contains(bad.err, "--no-such-flag"));
  CHECK(run({"generate"}).code == 2);
  CHECK(contains(run({"generate"}).err, "--prompt"));
  CHECK(run({"serve", "--port", "70000"}).code == 2);
  CHECK(run({"plan", "--memory", "lots", kModel}).code == 2);
}

TEST_CASE("model files that can not be used end in a sentence") {
  const std::string missing = "/no/such/model.gguf";
  const Result none = run({"generate", "-m", missing, "-p", "x"});
  CHECK(none.code == 1);
  CHECK(contains(none.err, missing));
  CHECK(none.out.empty());

  const std::string readme = (sluice::test::source_dir() / "README.md").string();
  const Result other = run({"generate", "-m", readme, "-p", "x"});
  CHECK(other.code == 1);
  CHECK(contains(other.err, "GGUF"));

  const std::string cut = (std::filesystem::temp_directory_path() / "sluice-cut.gguf").string();
  std::filesystem::copy_file(kModel, cut, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(cut, 1'000'000);
  const Result truncated = run({"inspect", cut});
  CHECK(truncated.code == 1);
  CHECK(contains(truncated.err, cut));
  std::filesystem::remove(cut);
}

TEST_CASE("damaged model files of the reference data never crash the program") {
  const auto broken = shared_dir("reference/broken");
  if (!broken) return;
  for (const auto& entry : std::filesystem::directory_iterator(*broken)) {
    if (entry.path().extension() != ".gguf") continue;
    const std::string name = entry.path().stem().string();
    const Result result = run({"generate", "-m", entry.path().string(), "-p", "a", "-n", "2"});
    INFO(name << ": " << result.code << " " << result.err);
    if (name.starts_with("ok-")) {
      CHECK(result.code == 0);
    } else {
      CHECK((result.code == 0 || result.code == 1 || result.code == 2));
      if (result.code != 0) CHECK(contains(result.err, "sluice: "));
    }
  }
}

TEST_CASE("generate prints the continuation alone") {
  const auto models = shared_dir("models");
  if (!models) return;
  const Result result =
      run({"generate", "--model", (*models / "stories260K.gguf").string(), "--prompt",
           "Once upon a time", "--max-tokens", "120", "--temperature", "0"});
  CHECK(result.code == 0);
  const std::string expected =
      ", there was a little girl named Lily. She loved to play outside in the park. One day, she "
      "saw a big, red ball. She wanted to play with it, but it was too high.\nLily's mom said, "
      "\"Lily, let's go to the park.\" Lily was sad and didn't know what to do.";
  CHECK(result.out.substr(0, expected.size()) == expected);
  CHECK(result.err.empty());
}

TEST_CASE("the same seed gives the same answer and limits hold") {
  const std::vector<std::string> arguments = {"generate", "--chat", "-p", "Tell me a story.",
                                              "-n",       "40",     "-s", "7"};
  const Result first = run(arguments);
  const Result second = run(arguments);
  CHECK(first.code == 0);
  CHECK_FALSE(first.out.empty());
  CHECK(first.out == second.out);

  const Result stats = run({"generate", "-p", "Once", "-n", "3", "-t", "0", "--stats"});
  CHECK(contains(stats.err, "max_new_tokens"));
  const Result piped = run({"generate", "-p", "-", "-n", "3", "-t", "0"}, "Once");
  CHECK(piped.out == run({"generate", "-p", "Once", "-n", "3", "-t", "0"}).out);
}

TEST_CASE("a prompt longer than the context is refused with the numbers") {
  std::string words;
  for (int i = 0; i < 2000; ++i) words += " cat";
  const Result result = run({"generate", "-p", words, "-n", "3"});
  CHECK(result.code == 1);
  CHECK(contains(result.err, "2000 tokens"));
  CHECK(contains(result.err, "511"));
}

TEST_CASE("chat remembers the turns and reads commands") {
  const Result result =
      run({"chat", "-t", "0", "-n", "40"}, "Who are you?\n/new\n/nonsense\nHello!\n/quit\n");
  CHECK(result.code == 0);
  CHECK(contains(result.out, "story"));
  CHECK(contains(result.err, "no command /nonsense"));
}

TEST_CASE("plan and inspect answer without taking memory") {
  const Result plan = run({"plan", kModel, "--json"});
  CHECK(plan.code == 0);
  CHECK(contains(plan.out, "\"kv_bytes_per_token\":2304"));  // 6 layers x 2 x 96 x 2 bytes
  // The 7B class before a download: 512 KiB a token, 8 sequences of 4096 positions in 16 GiB.
  const Result shape = run({"plan", "--shape", "layers=32,hidden=4096,heads=32", "--context",
                            "4096", "--sequences", "8", "--memory", "64GiB", "--json"});
  CHECK(shape.code == 0);
  CHECK(contains(shape.out, "\"kv_bytes_per_token\":524288"));
  CHECK(contains(shape.out, "\"kv_pool_bytes\":17179869184"));
  const Result inspect = run({"inspect", kModel, "--tensors", "--metadata"});
  CHECK(inspect.code == 0);
  CHECK(contains(inspect.out, "blk.5.ffn_up.weight"));
  CHECK(contains(inspect.out, "<|im_end|>"));
  const Result tight =
      run({"plan", kModel, "--context", "512", "--sequences", "4", "--memory", "1M"});
  CHECK(tight.code == 1);
  CHECK_FALSE(tight.err.empty());
}

TEST_CASE("serve names a port in use") {
  const TakenPort taken;
  const Result result = run({"serve", "--port", taken.port()});
  CHECK(result.code == 1);
  CHECK(contains(result.err, taken.port()));
}

TEST_CASE("SIGTERM ends the server with 0") {
  Process server({SLUICE_PROGRAM, "serve", "--port", "0"});
  REQUIRE(server.wait_for_output("listening on http://127.0.0.1:", Seconds(30)));
  server.send(SIGTERM);
  CHECK(server.wait(Seconds(30)) == 0);
}

TEST_CASE("options come from a TOML file too") {
  const auto file = std::filesystem::temp_directory_path() / "sluice-test.toml";
  std::ofstream(file) << "[generate]\nmax-tokens = 3\ntemperature = 0\nprompt = \"Once\"\n";
  const Result result = run({"--config", file.string(), "generate"});
  std::filesystem::remove(file);
  CHECK(result.code == 0);
  CHECK(result.out == run({"generate", "-p", "Once", "-n", "3", "-t", "0"}).out);
}

TEST_CASE("a CUDA device that is asked for and is not there ends the program with a sentence") {
  if (!sluice::kernels::cuda_devices().devices.empty()) return;
  const Result refused =
      run({"generate", "-m", kModel, "--device", "cuda", "-n", "1", "-p", "Hello"});
  CHECK(refused.code != 0);
  CHECK(contains(refused.err, "--device cuda is not possible: "));
  CHECK(contains(refused.err, "Use --device auto or cpu."));
  const Result told = run({"inspect", kModel, "--device", "auto"});
  CHECK(told.code == 0);
  CHECK(contains(told.out, "computing on the CPU ("));
  const Result chosen = run({"inspect", kModel});
  CHECK(contains(chosen.out, "computing on the CPU\n"));
}
