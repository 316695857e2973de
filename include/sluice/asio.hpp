// The engine in a coroutine: `co_await stream.next()` (Boost.Asio 1.81).
//
//   sluice::AsyncStream stream(co_await asio::this_coro::executor, engine, std::move(request));
//   while (true) {
//     const sluice::Event event = co_await stream.next(asio::use_awaitable);
//     if (const auto* token = std::get_if<sluice::TokenEvent>(&event)) co_await send(token->text);
//     if (sluice::is_terminal(event)) break;
//   }
//
// Flow. An event counts as delivered when next() has handed it over. Not awaiting is the
// back-pressure: when Config::credit_window tokens are waiting, the model draws no more for this
// stream, and for no other the less.
//
// Threads. next() completes on the executor associated with the completion token, which for a
// coroutine is its own; by default on the stream's. The calls on one AsyncStream are not to be
// made at the same time (as with a socket: one strand), and one next() at a time may be pending.
//
// Cancellation. The slot of the completion token is honoured, so `stream.next() || timer` works:
// next() completes with operation_aborted. No event is lost by that, and the stream goes on; what
// ends it is cancel(), or the destruction of the AsyncStream. (Asio joins the variant that an event
// is with the other result: std::monostate says that the timer was first.)
//
// What outlives what. The engine need not outlive the AsyncStream: when it goes, the stream gets
// its terminal event. The execution context must outlive both, as for every I/O object.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "sluice/engine.hpp"

namespace sluice {
namespace SLUICE_PUBLIC v0 {

/// A stream whose events are awaited. Movable, not copyable.
template <class Executor = boost::asio::any_io_executor>
class BasicAsyncStream {
 public:
  /// As I/O objects have it.
  using executor_type = Executor;

  /// Starts the stream; as Engine::generate(), it does not wait and does not fail.
  BasicAsyncStream(Executor executor, Engine& engine, Request request)
      : executor_(std::move(executor)), mailbox_(std::make_shared<Mailbox>()) {
    stream_ = engine.generate(
        std::move(request), [mailbox = mailbox_](const Event& event) { mailbox->put(event); },
        Delivery::kAcknowledged);
  }
  /// Ends the stream if it has not ended. A pending next() completes with operation_aborted.
  ~BasicAsyncStream() { close(); }
  /// Moved-from, it may only be destroyed or assigned to.
  BasicAsyncStream(BasicAsyncStream&&) noexcept = default;
  /// The stream before ends.
  BasicAsyncStream& operator=(BasicAsyncStream&& other) noexcept {
    if (this == &other) return *this;
    close();
    executor_ = std::move(other.executor_);
    mailbox_ = std::move(other.mailbox_);
    stream_ = std::move(other.stream_);
    return *this;
  }

  /// The one that next() completes on when the completion token has none.
  executor_type get_executor() const noexcept { return executor_; }
  /// For steering: cancel, pause, resume, change.
  const Stream& handle() const noexcept { return stream_; }

  /// Waits for the next event; signature void(error_code, Event). After the terminal event it
  /// completes with asio::error::eof, and with already_started while another one is pending.
  template <class Token>
  auto next(Token&& token) {
    return boost::asio::async_initiate<Token, void(boost::system::error_code, Event)>(
        [this](auto handler) { take(std::move(handler)); }, token);
  }

 private:
  /// A next() that waits. It keeps its executor's context at work.
  struct Waiter {
    virtual ~Waiter() = default;
    /// Runs the function where the completion belongs, later.
    virtual void post(std::function<void()> function) = 0;
    /// The completion; called there, once.
    virtual void complete(boost::system::error_code error, Event event) = 0;
  };

  template <class Handler>
  struct HandlerWaiter final : Waiter {
    HandlerWaiter(Handler taken, const Executor& fallback)
        : handler(std::move(taken)), work(boost::asio::make_work_guard(handler, fallback)) {}
    void post(std::function<void()> function) override {
      boost::asio::post(work.get_executor(), std::move(function));
    }
    void complete(boost::system::error_code error, Event event) override {
      boost::asio::get_associated_cancellation_slot(handler).clear();
      work.reset();
      std::move(handler)(error, std::move(event));
    }

    Handler handler;
    boost::asio::executor_work_guard<boost::asio::associated_executor_t<Handler, Executor>> work;
  };

  /// What the engine's threads and the caller's share.
  struct Mailbox : std::enable_shared_from_this<Mailbox> {
    std::mutex mutex;
    std::deque<Event> events;
    std::shared_ptr<Waiter> waiter;
    std::uint64_t waits = 0;  ///< numbers them, so that what comes late hits no other
    bool woken = false;       ///< the completion of this wait is on its way
    bool aborted = false;     ///< this wait was cancelled
    bool over = false;        ///< the terminal event has been handed over
    Stream stream;            ///< from the first wait on

    /// From the engine.
    void put(const Event& event) {
      const std::lock_guard lock(mutex);
      // Of several signs of life nobody misses the older ones.
      if (std::holds_alternative<HeartbeatEvent>(event) && !events.empty() &&
          std::holds_alternative<HeartbeatEvent>(events.back())) {
        events.pop_back();
      }
      events.push_back(event);
      if (waiter) wake();
    }
    /// Lets the wait complete, with the lock. What with is decided there: an event that meets a
    /// cancellation stays here.
    void wake() {
      if (std::exchange(woken, true)) return;
      waiter->post([self = this->shared_from_this(), wait = waits] { self->finish(wait); });
    }
    void finish(std::uint64_t wait) {
      std::shared_ptr<Waiter> ready;
      boost::system::error_code error;
      Event event;
      {
        const std::lock_guard lock(mutex);
        if (wait != waits || !waiter) return;
        ready = std::exchange(waiter, nullptr);
        if (aborted) {
          error = boost::asio::error::operation_aborted;
        } else if (over) {
          error = boost::asio::error::eof;
        } else {
          event = std::move(events.front());
          events.pop_front();
          over = is_terminal(event);
        }
      }
      if (!error) stream.delivered(number_of(event));
      ready->complete(error, std::move(event));
    }
    /// From the cancellation slot, and at the end.
    void abort(std::uint64_t wait) {
      const std::lock_guard lock(mutex);
      if (wait != waits || !waiter) return;
      aborted = true;
      wake();
    }
  };

  template <class Handler>
  void take(Handler handler) {
    auto slot = boost::asio::get_associated_cancellation_slot(handler);
    auto waiter = std::make_shared<HandlerWaiter<Handler>>(std::move(handler), executor_);
    const std::lock_guard lock(mailbox_->mutex);
    if (mailbox_->waiter) {
      return waiter->post([waiter] { waiter->complete(boost::asio::error::already_started, {}); });
    }
    if (!mailbox_->stream) mailbox_->stream = stream_;
    mailbox_->waiter = std::move(waiter);
    mailbox_->woken = false;
    mailbox_->aborted = false;
    const std::uint64_t wait = ++mailbox_->waits;
    if (slot.is_connected()) {
      slot.assign([weak = std::weak_ptr<Mailbox>(mailbox_), wait](boost::asio::cancellation_type) {
        if (const auto mailbox = weak.lock()) mailbox->abort(wait);
      });
    }
    if (mailbox_->over || !mailbox_->events.empty()) mailbox_->wake();
  }

  void close() {
    if (!mailbox_) return;
    stream_.abandon();
    std::uint64_t wait = 0;
    {
      const std::lock_guard lock(mailbox_->mutex);
      wait = mailbox_->waits;
    }
    mailbox_->abort(wait);
  }

  Executor executor_;
  std::shared_ptr<Mailbox> mailbox_;  ///< null when moved from
  Stream stream_;
};

/// With the executor that most programs use.
using AsyncStream = BasicAsyncStream<>;

}  // namespace v0
}  // namespace sluice
