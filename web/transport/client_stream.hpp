// A connection as Beast takes it: a stream over any transport.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/beast/core/role.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "web/transport/transport.hpp"

namespace sluice::web {

/// A moved-from one still knows its executor, and can be closed without effect.
class ClientStream {
 public:
  using executor_type = boost::asio::any_io_executor;

  /// `place` is kept as long as the connection: whoever counts connections sees its end by it.
  explicit ClientStream(std::unique_ptr<Transport> transport, std::shared_ptr<void> place = {})
      : executor_(transport->executor()),
        place_(std::move(place)),
        transport_(std::move(transport)) {}
  ClientStream(ClientStream&& other) noexcept
      : executor_(other.executor_),
        place_(std::move(other.place_)),
        transport_(std::move(other.transport_)) {}
  ClientStream& operator=(ClientStream&&) = delete;

  executor_type get_executor() const { return executor_; }
  Transport* operator->() const { return transport_.get(); }
  void close() {
    if (transport_) transport_->close();
  }

  template <class Buffers, class Handler>
  auto async_read_some(const Buffers& buffers, Handler&& handler) {
    return boost::asio::async_initiate<Handler, void(boost::system::error_code, std::size_t)>(
        [this](auto&& done, const ReadBuffers& list) {
          transport_->read_some(list, IoHandler(std::forward<decltype(done)>(done)));
        },
        handler, ReadBuffers::of(buffers));
  }

  template <class Buffers, class Handler>
  auto async_write_some(const Buffers& buffers, Handler&& handler) {
    return boost::asio::async_initiate<Handler, void(boost::system::error_code, std::size_t)>(
        [this](auto&& done, const WriteBuffers& list) {
          transport_->write_some(list, IoHandler(std::forward<decltype(done)>(done)));
        },
        handler, WriteBuffers::of(buffers));
  }

 private:
  const executor_type executor_;
  std::shared_ptr<void> place_;
  std::unique_ptr<Transport> transport_;
};

// How Beast's WebSocket ends a connection, found by the type of the stream.

inline void beast_close_socket(ClientStream& stream) {
  stream.close();
}

template <class Handler>
void async_teardown(boost::beast::role_type /*role*/, ClientStream& stream, Handler&& handler) {
  stream->finish(
      IoHandler([done = std::forward<Handler>(handler)](boost::system::error_code error,
                                                        std::size_t) mutable { done(error); }));
}

}  // namespace sluice::web
