// The bytes of one connection, whatever carries them: TCP, TLS over TCP, or what a program brings
// that embeds the server.
//
// Reads and writes are erased here, so that HTTP and WebSocket sessions are compiled once for all
// carriers. One read and one write may be pending at a time; handlers run on the executor, which
// is the connection's strand.
#pragma once

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

namespace sluice::web {

/// Called once with what went wrong, if anything, and the number of bytes. Holds what can be moved
/// only, and gives its memory back before it calls.
class IoHandler {
 public:
  template <class Function>
  explicit IoHandler(Function function)
      : impl_(std::make_unique<Impl<Function>>(std::move(function))) {}

  void operator()(boost::system::error_code error, std::size_t bytes = 0) {
    Base* const impl = impl_.get();
    impl->call(std::move(impl_), error, bytes);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual void call(std::unique_ptr<Base> self, boost::system::error_code error,
                      std::size_t bytes) = 0;
  };
  template <class Function>
  struct Impl final : Base {
    explicit Impl(Function f) : function(std::move(f)) {}
    void call(std::unique_ptr<Base> self, boost::system::error_code error,
              std::size_t bytes) override {
      Function moved(std::move(function));
      self.reset();
      moved(error, bytes);
    }
    Function function;
  };
  std::unique_ptr<Base> impl_;
};

/// A few buffers, as Asio takes them. What does not fit is left for the next read or write.
template <class Buffer>
class BufferList {
 public:
  using value_type = Buffer;
  using const_iterator = const Buffer*;

  template <class Sequence>
  static BufferList of(const Sequence& sequence) {
    BufferList list;
    const auto end = boost::asio::buffer_sequence_end(sequence);
    for (auto it = boost::asio::buffer_sequence_begin(sequence); it != end && list.size_ < kMost;
         ++it) {
      const Buffer buffer(*it);
      if (buffer.size() > 0) list.buffers_[list.size_++] = buffer;
    }
    return list;
  }
  const_iterator begin() const { return buffers_.data(); }
  const_iterator end() const { return buffers_.data() + size_; }

 private:
  static constexpr std::size_t kMost = 16;
  std::array<Buffer, kMost> buffers_{};
  std::size_t size_ = 0;
};
using ReadBuffers = BufferList<boost::asio::mutable_buffer>;
using WriteBuffers = BufferList<boost::asio::const_buffer>;

class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual boost::asio::any_io_executor executor() = 0;
  virtual bool encrypted() const = 0;
  /// What has to come before the first read; completes at once where there is nothing to do.
  virtual void handshake(IoHandler handler) = 0;
  virtual void read_some(const ReadBuffers& buffers, IoHandler handler) = 0;
  virtual void write_some(const WriteBuffers& buffers, IoHandler handler) = 0;
  /// Sends no more, tells the client so, and waits a short while for the client to close. Closing
  /// at once would make the kernel send a reset where input is unread, which can overtake the last
  /// bytes. Not while a read or write is pending.
  virtual void finish(IoHandler handler) = 0;

  /// From now on operations that are not complete in time fail and the connection is closed.
  virtual void expires_after(std::chrono::milliseconds time) = 0;
  virtual void expires_never() = 0;
  /// Pending operations fail; the connection stays.
  virtual void cancel() = 0;
  /// Pending operations fail; the connection is gone.
  virtual void close() = 0;
  virtual void set_send_buffer(int bytes) = 0;
};

}  // namespace sluice::web
