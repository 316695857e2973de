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
#include <thread>

#include "actors/engine.hpp"
#include "app/cli.hpp"
#include "app/commands.hpp"
#include "app/engine_options.hpp"
#include "engine/base/error.hpp"
#include "kernels/cuda/device_info.hpp"
#include "web/server.hpp"

namespace sluice::app {
namespace {

struct Options {
  EngineOptions engine;
  web::ServerOptions server;
  double grace_seconds = 10.0;
};

/// The signals that end the server, or make it read its files again (SIGHUP). Blocked in every
/// thread, so that only take() gets them.
class EndSignals {
 public:
  EndSignals() {
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

void report_device() {
  const kernels::CudaDevices cuda = kernels::cuda_devices();
  if (cuda.devices.empty()) {
    spdlog::info("computing on the CPU ({})", cuda.why_none);
  } else {
    spdlog::info("computing on the CPU; {} is present, but this version computes on the CPU only",
                 cuda.devices.front().name);
  }
}

/// Drains and stops; a second signal meanwhile ends the process at once.
void stop(web::Server& server, Engine& engine, const EndSignals& signals,
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

void reload(web::Server& server) {
  try {
    server.reload();
    spdlog::info("SIGHUP: the files are read again");
  } catch (const Error& error) {
    spdlog::error("SIGHUP: nothing is changed. {}", error.what());
  }
}

int serve(const Options& options) {
  spdlog::set_level(spdlog::level::from_str(options.engine.log_level));
  const EndSignals signals;

  web::Server::check(options.server);
  PreparedEngine prepared = prepare_engine(options.engine.finish());
  fmt::print("{}\n{}\n", plan_table(prepared.plan, prepared.model_config), stop_policy(prepared));
  std::fflush(stdout);
  report_device();
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
    if (signal == SIGHUP) reload(server);
  }
  const std::chrono::milliseconds grace(static_cast<std::int64_t>(options.grace_seconds * 1000.0));
  spdlog::info("{}: taking no more connections, {} s for running streams",
               signal == SIGINT ? "SIGINT" : "SIGTERM", options.grace_seconds);
  stop(server, engine, signals, grace);
  spdlog::info("stopped");
  return 0;
}

void add_server_options(CLI::App& command, web::ServerOptions& server) {
  const std::string group = "Server";
  command.add_option("--address", server.address, "Address to listen on")
      ->capture_default_str()
      ->group(group);
  command.add_option("--port", server.port, "Port to listen on; 0 picks a free one")
      ->capture_default_str()
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

}  // namespace

void add_serve_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("serve", "Serve a model: the page, WebSocket streams and HTTP");
  options->engine.add_to(*command, EngineUse::kService, false);
  add_server_options(*command, options->server);
  command
      ->add_option("--grace", options->grace_seconds,
                   "Seconds that running streams get after SIGTERM")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86400.0))
      ->group("Server");
  command->footer(
      "SIGTERM or Ctrl-C: no more connections, running streams get their grace time, then the\n"
      "program ends with 0. A second one ends it at once.\n"
      "SIGHUP: TLS certificate and API keys are read again; connections go on.\n"
      "\nExamples:\n"
      "  sluice serve\n"
      "  sluice serve -m model.gguf --context 8192 --sequences 4 --port 9000\n"
      "  sluice serve --static-dir static      edit the page and reload\n"
      "  sluice key new alice --file keys.txt\n"
      "  sluice serve --address 0.0.0.0 --allow-host chat.example --api-keys keys.txt \\\n"
      "               --tls-cert fullchain.pem --tls-key privkey.pem");
  command->callback([options, &action] { action = [options] { return serve(*options); }; });
}

}  // namespace sluice::app
