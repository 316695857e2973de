// One CUDA device as the backend uses it: memory, streams, events, graphs, matrix products.
//
// The only door between the engine and the CUDA runtime. There are two implementations: the real
// one (cuda_device.hpp) and, for tests, one in main memory whose kernels run on the CPU
// (tests/support/host_device.hpp). No type of the CUDA toolkit appears here.
//
// Every call can fail and says so in its DeviceError; none throws. A device belongs to one thread
// at a time; a thread that takes it over calls use_on_this_thread() first.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "kernels/cuda/device_error.hpp"
#include "kernels/cuda/launch_types.hpp"

struct CUevent_st;      // what the CUDA runtime calls an event
struct CUgraphExec_st;  // and a graph that can be launched

namespace sluice::kernels::cuda {

using Event = CUevent_st*;      ///< a point in a stream of work
using Graph = CUgraphExec_st*;  ///< work recorded once and launched often

/// Calls one launch function with the stream given. Holds all its arguments by value, so that it
/// can be called later and more than once.
using Launch = std::function<LaunchStatus(Stream)>;

struct DeviceProperties {
  int index = 0;  ///< the driver's number of the device
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  std::size_t total_bytes = 0;
  double bytes_per_second = 0.0;       ///< of its memory, by clock and width; 0: not known
  double operations_per_second = 0.0;  ///< in f32, by clock and cores, without matrix units
};

/// y = x W^T, f32, row-major: x [rows x in], W [out x in] dense, y [rows x out], x and y with so
/// many floats from row to row. Inputs may be rounded to 10 bits of fraction (TF32).
struct Gemm {
  const float* x = nullptr;
  const float* weight = nullptr;
  float* y = nullptr;
  std::size_t rows = 0;
  std::size_t in = 0;
  std::size_t out = 0;
  std::size_t x_stride = 0;
  std::size_t y_stride = 0;
};

class DeviceApi {
 public:
  virtual ~DeviceApi() = default;

  virtual const DeviceProperties& properties() const = 0;
  virtual DeviceError use_on_this_thread() = 0;
  /// Memory of the device that can still be taken.
  virtual DeviceError free_memory(std::size_t& bytes) = 0;

  // -- memory: from one pool, in the order of a stream -----------------------------------------
  virtual DeviceError allocate(void*& memory, std::size_t bytes, Stream stream) = 0;
  virtual void release(void* memory, Stream stream) = 0;
  /// Main memory that copies can read and write while the host goes on.
  virtual DeviceError allocate_pinned(void*& memory, std::size_t bytes) = 0;
  virtual void release_pinned(void* memory) = 0;

  virtual DeviceError copy_to_device(void* to, const void* from, std::size_t bytes,
                                     Stream stream) = 0;
  virtual DeviceError copy_to_host(void* to, const void* from, std::size_t bytes,
                                   Stream stream) = 0;
  virtual DeviceError fill_zero(void* memory, std::size_t bytes, Stream stream) = 0;

  // -- order -----------------------------------------------------------------------------------
  virtual DeviceError create_stream(Stream& stream) = 0;
  virtual void destroy_stream(Stream stream) = 0;
  virtual DeviceError create_event(Event& event) = 0;
  virtual void destroy_event(Event event) = 0;
  /// The event stands for everything that is in the stream now.
  virtual DeviceError record(Event event, Stream stream) = 0;
  /// What comes into the stream from now on waits for the event.
  virtual DeviceError wait(Stream stream, Event event) = 0;
  /// Has everything that the event stands for been done?
  virtual DeviceError query(Event event, bool& done) = 0;
  virtual DeviceError synchronize(Event event) = 0;
  virtual DeviceError synchronize_stream(Stream stream) = 0;

  // -- graphs ----------------------------------------------------------------------------------
  /// From now on work for the stream is recorded instead of done. One stream at a time.
  virtual DeviceError begin_capture(Stream stream) = 0;
  /// Ends the recording; also after a failure within it, which it then reports.
  virtual DeviceError end_capture(Stream stream, Graph& graph) = 0;
  virtual void destroy_graph(Graph graph) = 0;
  virtual DeviceError launch_graph(Graph graph, Stream stream) = 0;

  // -- matrix products -------------------------------------------------------------------------
  /// Empty when gemm() can be used, else why not, one sentence.
  virtual std::string why_no_gemm() const = 0;
  /// A row of y has the same bits whatever `rows` is.
  virtual DeviceError gemm(const Gemm& product, Stream stream) = 0;

  // -- kernels ---------------------------------------------------------------------------------
  virtual DeviceError launch(const Launch& kernel, Stream stream) = 0;
};

}  // namespace sluice::kernels::cuda
