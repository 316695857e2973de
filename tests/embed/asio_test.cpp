// The engine in coroutines: order, the end, cancellation of a wait, back-pressure, and destruction.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <thread>

#include "embed/engine_core.hpp"
#include "sluice/asio.hpp"
#include "tests/support/scripted_engine.hpp"

namespace {

using namespace sluice;
namespace asio = boost::asio;
using boost::system::error_code;

v0::Engine scripted(const test::ScriptedEngineOptions& options = {}) {
  return embed::Access::make_engine(test::scripted_engine(options));
}

test::ScriptedEngineOptions slow() {
  test::ScriptedEngineOptions options;
  options.per_token = std::chrono::milliseconds(5);
  return options;
}

v0::Request request_for(std::string prompt, std::int32_t max_new_tokens) {
  v0::Request request;
  request.input = std::move(prompt);
  request.stop.max_new_tokens = max_new_tokens;
  return request;
}

/// Runs a coroutine to its end; its exceptions are the test's.
template <class Coroutine>
void run(Coroutine coroutine) {
  asio::io_context context;
  std::exception_ptr failure;
  asio::co_spawn(context, coroutine(), [&](std::exception_ptr error) { failure = error; });
  context.run();
  if (failure) std::rethrow_exception(failure);
}

TEST_CASE("events are awaited in order and then comes the end of the file") {
  v0::Engine engine = scripted();
  run([&]() -> asio::awaitable<void> {
    v0::AsyncStream stream(co_await asio::this_coro::executor, engine, request_for("abc", 100));
    const std::thread::id home = std::this_thread::get_id();
    std::uint64_t number = 0;
    std::string text;
    while (true) {
      const v0::Event event = co_await stream.next(asio::use_awaitable);
      CHECK(std::this_thread::get_id() == home);
      CHECK(number_of(event) == ++number);
      if (const auto* token = std::get_if<v0::TokenEvent>(&event)) text += token->text;
      if (is_terminal(event)) break;
    }
    CHECK(text.size() == 100);
    error_code error;
    co_await stream.next(asio::redirect_error(asio::use_awaitable, error));
    CHECK(error == asio::error::eof);
  });
}

TEST_CASE("not awaiting holds the model back") {
  test::ScriptedEngineOptions options;
  options.config.credit_window = 4;
  v0::Engine engine = scripted(options);
  run([&]() -> asio::awaitable<void> {
    const auto executor = co_await asio::this_coro::executor;
    v0::AsyncStream stream(executor, engine, request_for("abc", 100));
    asio::steady_timer timer(executor, std::chrono::milliseconds(50));
    co_await timer.async_wait(asio::use_awaitable);
    CHECK(engine.stats().generated_tokens <= 5);
    for (int i = 0; i < 10; ++i) (void)co_await stream.next(asio::use_awaitable);
    timer.expires_after(std::chrono::milliseconds(50));
    co_await timer.async_wait(asio::use_awaitable);
    CHECK(engine.stats().generated_tokens >= 9);
    CHECK(engine.stats().generated_tokens <= 40);
  });
}

TEST_CASE("a cancelled wait loses no event and does not end the stream") {
  using namespace asio::experimental::awaitable_operators;
  v0::Engine engine = scripted(slow());
  run([&]() -> asio::awaitable<void> {
    const auto executor = co_await asio::this_coro::executor;
    v0::AsyncStream stream(executor, engine, request_for("abc", 60));
    std::uint64_t number = 0;
    int cancelled = 0;
    std::optional<v0::Event> event;
    while (!event || !is_terminal(*event)) {
      asio::steady_timer timer(executor, std::chrono::milliseconds(1));
      auto first =
          co_await (stream.next(asio::use_awaitable) || timer.async_wait(asio::use_awaitable));
      if (std::holds_alternative<std::monostate>(first)) {
        ++cancelled;
        continue;
      }
      event = std::visit(
          [](auto&& which) -> v0::Event {
            if constexpr (std::is_constructible_v<v0::Event, decltype(which)>) return which;
            return {};
          },
          std::move(first));
      CHECK(number_of(*event) == ++number);
    }
    if (const auto* failure = std::get_if<v0::ErrorEvent>(&*event)) FAIL(failure->message);
    CHECK(cancelled > 0);
    CHECK(std::get<v0::DoneEvent>(*event).usage.completion_tokens == 60);
  });
}

TEST_CASE("one wait at a time") {
  v0::Engine engine = scripted(slow());
  run([&]() -> asio::awaitable<void> {
    const auto executor = co_await asio::this_coro::executor;
    v0::AsyncStream stream(executor, engine, request_for("abc", 400));
    // After `accepted`, the next event takes some milliseconds.
    (void)co_await stream.next(asio::use_awaitable);
    asio::cancellation_signal signal;
    std::optional<error_code> first;
    stream.next(asio::bind_cancellation_slot(
        signal.slot(), [&](error_code error, const v0::Event&) { first = error; }));
    error_code second;
    co_await stream.next(asio::redirect_error(asio::use_awaitable, second));
    if (!first) {
      CHECK(second == asio::error::already_started);
      signal.emit(asio::cancellation_type::terminal);
      asio::steady_timer timer(executor, std::chrono::milliseconds(1));
      co_await timer.async_wait(asio::use_awaitable);
      CHECK(first);
    }
  });
}

TEST_CASE("destruction ends the stream and the pending wait") {
  v0::Engine engine = scripted(slow());
  asio::io_context context;
  std::optional<error_code> outcome;
  int events = 0;
  {
    auto stream =
        std::make_unique<v0::AsyncStream>(context.get_executor(), engine, request_for("abc", 500));
    std::function<void(error_code, v0::Event)> on_event = [&](error_code error, v0::Event) {
      if (error) {
        outcome = error;
      } else if (++events == 5) {
        stream.reset();
      } else {
        stream->next(on_event);
      }
    };
    stream->next(on_event);
    context.run();
    CHECK(events == 5);
    CHECK_FALSE(outcome);

    v0::AsyncStream other(context.get_executor(), engine, request_for("abc", 500));
    other.handle().pause();
    std::function<void(error_code, v0::Event)> listen = [&](error_code error, v0::Event) {
      outcome = error;
      if (!error) other.next(listen);
    };
    other.next(listen);
    context.restart();
    context.run_for(std::chrono::milliseconds(50));
  }
  context.restart();
  context.run();
  REQUIRE(outcome);
  CHECK(*outcome == asio::error::operation_aborted);
}

TEST_CASE("an engine that goes first gives every stream its end") {
  auto engine = std::make_unique<v0::Engine>(scripted(slow()));
  run([&]() -> asio::awaitable<void> {
    v0::AsyncStream stream(co_await asio::this_coro::executor, *engine, request_for("abc", 500));
    (void)co_await stream.next(asio::use_awaitable);
    // Blocks this thread; nothing that the engine waits for needs it.
    engine.reset();
    std::optional<v0::Event> event;
    while (!event || !is_terminal(*event)) event = co_await stream.next(asio::use_awaitable);
    CHECK(is_terminal(*event));
  });
}

}  // namespace
