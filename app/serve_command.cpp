// sluice serve: the page, the HTTP endpoints and the WebSocket protocol, until SIGTERM.
#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/engine.hpp"
#include "app/cli.hpp"
#include "app/commands.hpp"
#include "app/engine_options.hpp"
#include "app/log_format.hpp"
#include "engine/base/error.hpp"
#include "web/server.hpp"

namespace sluice::app {
namespace {

struct Options {
  EngineOptions engine;
  web::ServerOptions server;
  double drain_seconds = 10.0;
  std::string log_format = "text";
};

using OptionsPtr = std::shared_ptr<Options>;
using Arguments = std::vector<std::string>;

/// The signals that end the server, or make it read its files again (SIGHUP). Blocked in every
/// thread, so that only take() gets them.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, signal);
    // Before the first thread starts: threads inherit the mask.
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    // A client that goes away while we write is an error code there, not the end of the program.
    std::signal(SIGPIPE, SIG_IGN);
  }

  /// Waits up to `wait` for one of them; 0 when none came.
  int take(std::chrono::milliseconds wait) const {
    const timespec time{static_cast<time_t>(wait.count() / 1000),
                        static_cast<long>(wait.count() % 1000) * 1'000'000L};
    const int signal = sigtimedwait(&set_, nullptr, &time);
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t set_;
};

/// What will end an answer when a request does not say otherwise.
std::string stop_policy(const PreparedEngine& prepared) {
  std::string ends;
  for (const TokenId id : prepared.tokenizer->end_tokens()) {
    ends += fmt::format("{}{}", ends.empty() ? "" : ", ", prepared.tokenizer->token_bytes(id));
  }
  return fmt::format(
      "Stop policy\n"
      "  max_new_tokens     {} where a request does not say (never beyond the context); after 200\n"
      "                     answers the 90th percentile of their lengths\n"
      "  end tokens         {}\n"
      "  stop strings, low confidence, repetition, time limit: as each request asks\n",
      prepared.config.default_max_new_tokens,
      ends.empty() ? "none known: answers end at their maximum length" : ends);
}

/// Drains and stops; a second signal meanwhile ends the process at once.
void stop(web::Server& server, Engine& engine, const Signals& signals,
          std::chrono::milliseconds grace) {
  std::atomic<bool> stopped{false};
  std::thread stopper([&] {
    server.stop(grace);
    engine.shutdown(std::chrono::milliseconds(0));
    stopped = true;
  });
  while (!stopped) {
    const int signal = signals.take(std::chrono::milliseconds(50));
    if (signal == SIGINT || signal == SIGTERM) {
      spdlog::warn("second signal: ending at once");
      spdlog::shutdown();
      _exit(kFailedAtOnce);
    }
  }
  stopper.join();
}

std::pair<CLI::App*, OptionsPtr> declare(CLI::App& program);

/// What command line and configuration file say now. Throws Error.
Options read_again(const Arguments& arguments) {
  CLI::App program;
  program.set_config("--config");
  program.allow_config_extras(CLI::config_extras_mode::ignore);  // sections of other commands
  const OptionsPtr options = declare(program).second;
  try {
    program.parse(Arguments(arguments.rbegin(), arguments.rend()));  // CLI11 wants the last first
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::kInvalidArgument, error.what());
  }
  return *options;
}

void apply_log_options(const Options& options) {
  spdlog::set_level(spdlog::level::from_str(options.engine.log_level));
  set_log_format(options.log_format);
}

/// What can change while the server runs: the log, how long a drain may take, certificate and keys.
/// All or nothing.
void reload(web::Server& server, Options& options, const Arguments& arguments) {
  try {
    const Options now = read_again(arguments);
    server.reload();
    options.engine.log_level = now.engine.log_level;
    options.log_format = now.log_format;
    options.drain_seconds = now.drain_seconds;
    apply_log_options(options);
    spdlog::info("SIGHUP: the files have been read again");
  } catch (const Error& error) {
    spdlog::error("SIGHUP: nothing is changed. {}", error.what());
  }
}

int serve(Options options, const Arguments& arguments) {
  apply_log_options(options);
  const Signals signals;

  PreparedEngine prepared = prepare_engine(options.engine.finish());
  fmt::print("{}\n{}\n", plan_table(prepared.plan, prepared.model_config), stop_policy(prepared));
  std::fflush(stdout);
  spdlog::info("{}", prepared.device_note);
  if (options.engine.warm_up) {
    const WarmUp warm = warm_up(prepared);
    spdlog::info("warm-up: {:.2f} s, {} of scratch memory measured, {} sequences of {} positions",
                 std::chrono::duration<double>(warm.duration).count(),
                 format_bytes(warm.scratch_bytes), prepared.plan.sequences, prepared.plan.context);
  }

  Engine engine(std::move(prepared));
  web::Server server(engine, options.server);
  server.start();
  spdlog::info("{} on {}", engine.info().model_name, engine.info().backend);
  fmt::print("listening on {}\n", server.url());
  std::fflush(stdout);

  int signal = 0;
  while (signal == 0 || signal == SIGHUP) {
    signal = signals.take(std::chrono::hours(1));
    if (signal == SIGHUP) reload(server, options, arguments);
  }
  const std::chrono::milliseconds drain(static_cast<std::int64_t>(options.drain_seconds * 1000.0));
  spdlog::info("{}: taking no more streams, {} s for running ones",
               signal == SIGINT ? "SIGINT" : "SIGTERM", options.drain_seconds);
  stop(server, engine, signals, drain);
  spdlog::info("stopped");
  return 0;
}

void add_server_options(CLI::App& command, web::ServerOptions& server) {
  const std::string group = "Server";
  // The last one counts, so that what starts the program for others (an image) can give a default.
  command.add_option("--address", server.address, "Address to listen on")
      ->capture_default_str()
      ->take_last()
      ->group(group);
  command.add_option("--port", server.port, "Port to listen on; 0 picks a free one")
      ->capture_default_str()
      ->take_last()
      ->group(group);
  command
      .add_option("--api-keys", server.key_file,
                  "Serve only who has a key of this file (`sluice key new NAME` makes one). SIGHUP "
                  "reads it anew")
      ->group(group);
  command
      .add_flag("--insecure", server.insecure,
                "Listen beyond this machine without keys: anyone who reaches the port may use the "
                "model")
      ->group(group);
  command
      .add_option("--tls-cert", server.tls_certificate,
                  "Speak TLS with this certificate: PEM, the chain behind it. SIGHUP reads it anew")
      ->group(group);
  command.add_option("--tls-key", server.tls_key, "The certificate's key: PEM, no passphrase")
      ->group(group);
  command
      .add_option("--static-dir", server.static_dir,
                  "Serve the page from this folder instead of from the program")
      ->check(CLI::ExistingDirectory)
      ->group(group);
  command
      .add_option("--allow-host", server.allowed_hosts,
                  "Host name that clients may use besides the loopback names (repeatable)")
      ->group(group);
  command
      .add_option("--cors-origin,--allow-origin", server.allowed_origins,
                  "Origin whose pages may use this server besides its own, e.g. "
                  "https://chat.example (repeatable)")
      ->group(group);
  command
      .add_option_function<double>(
          "--max-keep",
          [&server](double seconds) {
            server.limits.max_keep =
                std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000.0));
          },
          "Seconds that a stream may go on without its client, for resuming (default 300)")
      ->check(CLI::Range(0.0, 86400.0))
      ->group(group);
  command
      .add_option("--max-connections", server.limits.max_connections,
                  "Connections at the same time")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20))
      ->group(group);
  command
      .add_option("--max-connections-per-address", server.limits.max_connections_per_address,
                  "Of these, from one IPv4 address or IPv6 /64; 0: any number. Behind a proxy all "
                  "clients have one address")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20))
      ->group(group);
}

/// Adds the command and says where its options will be.
std::pair<CLI::App*, OptionsPtr> declare(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("serve", "Serve a model: the page, WebSocket streams and HTTP");
  command->fallthrough();  // --config may stand behind the command
  options->engine.add_to(*command, EngineUse::kService, false);
  add_server_options(*command, options->server);
  command
      ->add_option("--drain-timeout,--grace", options->drain_seconds,
                   "Seconds that running streams get after SIGTERM")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86400.0))
      ->group("Server");
  command->add_option("--log-format", options->log_format, "text, or json: one object a line")
      ->capture_default_str()
      ->take_last()
      ->check(CLI::IsMember({"text", "json"}))
      ->group("Server");
  return {command, options};
}

}  // namespace

void add_serve_command(CLI::App& program, Action& action, Arguments arguments) {
  const auto [command, options] = declare(program);
  command->footer(
      "SIGTERM or Ctrl-C: no more streams, running ones get --drain-timeout, then the program\n"
      "ends with 0. A second one ends it at once.\n"
      "SIGHUP: TLS certificate and API keys are read again, and from the configuration file\n"
      "--log-level, --log-format and --drain-timeout; connections go on.\n"
      "\nExamples:\n"
      "  sluice serve\n"
      "  sluice serve -m model.gguf --context 8192 --sequences 4 --port 9000\n"
      "  sluice serve --static-dir static      edit the page and reload\n"
      "  sluice key new alice --file keys.txt\n"
      "  sluice serve --address 0.0.0.0 --allow-host chat.example --api-keys keys.txt \\\n"
      "               --tls-cert fullchain.pem --tls-key privkey.pem");
  command->callback([options = options, arguments = std::move(arguments), &action] {
    action = [options, arguments] { return serve(*options, arguments); };
  });
}

}  // namespace sluice::app
