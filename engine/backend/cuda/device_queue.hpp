// A stream of device work that remembers its first failure and from then on does nothing: what
// follows a failed call would only hide its reason.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "kernels/cuda/device_api.hpp"

namespace sluice {

/// Throws Error for a failed call while loading: kDoesNotFit where memory is lacking, else
/// kInternal. `doing` begins the sentence, e.g. "uploading the weights".
void require(const kernels::cuda::DeviceError& error, const std::string& doing);

/// Like a stream, an event is made and destroyed with its owner.
class DeviceMark {
 public:
  /// Throws as require().
  explicit DeviceMark(kernels::cuda::DeviceApi& api);
  ~DeviceMark();
  DeviceMark(const DeviceMark&) = delete;
  DeviceMark& operator=(const DeviceMark&) = delete;

  kernels::cuda::Event event() const { return event_; }

 private:
  kernels::cuda::DeviceApi& api_;
  kernels::cuda::Event event_ = nullptr;
};

class DeviceQueue {
 public:
  /// Throws as require().
  explicit DeviceQueue(kernels::cuda::DeviceApi& api);
  ~DeviceQueue();
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  kernels::cuda::DeviceApi& api() { return api_; }
  kernels::cuda::Stream stream() const { return stream_; }

  /// `kernel` calls one launch function with the stream it is given. It is copied and may be
  /// called later and more than once: it holds its arguments by value.
  template <class Kernel>
  void launch(Kernel&& kernel) {
    if (!error_) error_ = api_.launch(std::forward<Kernel>(kernel), stream_);
  }
  void upload(void* to, const void* from, std::size_t bytes) {
    if (!error_ && bytes > 0) error_ = api_.copy_to_device(to, from, bytes, stream_);
  }
  void download(void* to, const void* from, std::size_t bytes) {
    if (!error_ && bytes > 0) error_ = api_.copy_to_host(to, from, bytes, stream_);
  }
  void fill_zero(void* memory, std::size_t bytes) {
    if (!error_ && bytes > 0) error_ = api_.fill_zero(memory, bytes, stream_);
  }
  void gemm(const kernels::cuda::Gemm& product) {
    if (!error_) error_ = api_.gemm(product, stream_);
  }
  void record(const DeviceMark& mark) {
    if (!error_) error_ = api_.record(mark.event(), stream_);
  }
  void wait_for(const DeviceMark& mark) {
    if (!error_) error_ = api_.wait(stream_, mark.event());
  }
  void note(const kernels::cuda::DeviceError& error) {
    if (!error_) error_ = error;
  }
  void synchronize() {
    if (!error_) error_ = api_.synchronize_stream(stream_);
  }

  bool failed() const { return static_cast<bool>(error_); }
  const kernels::cuda::DeviceError& error() const { return error_; }
  /// The failure, which is then forgotten.
  kernels::cuda::DeviceError take_error() { return std::exchange(error_, {}); }

 private:
  kernels::cuda::DeviceApi& api_;
  kernels::cuda::Stream stream_ = nullptr;
  kernels::cuda::DeviceError error_;
};

}  // namespace sluice
