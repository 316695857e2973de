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
#include <cstdint>
#include <string>

#include "kernels/cuda/device_error.hpp"

namespace sluice::kernels {

using DeviceStream = void*;  ///< a queue of work; cudaStream_t
using DeviceEvent = void*;   ///< a point in such a queue; cudaEvent_t
using DeviceGraph = void*;   ///< work recorded once and launched often; cudaGraphExec_t

struct DeviceProperties {
  int index = 0;  ///< the driver's number of the device
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  std::size_t total_bytes = 0;
  double bytes_per_second = 0.0;  ///< of its memory, by clock and width; 0: not known
};

/// y = x W^T, all dense and row-major: x [rows x in], W [out x in], f32; y [rows x out] with
/// `y_stride` floats from row to row. Inputs may be rounded to 10 bits of fraction (TF32).
struct DeviceGemm {
  const float* x = nullptr;
  const float* weight = nullptr;
  float* y = nullptr;
  std::size_t rows = 0;
  std::size_t in = 0;
  std::size_t out = 0;
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
  /// Makes the pool hold at least so many bytes, so that later allocations take no time.
  virtual DeviceError reserve(std::size_t bytes, DeviceStream stream) = 0;
  virtual DeviceError allocate(void*& memory, std::size_t bytes, DeviceStream stream) = 0;
  virtual void release(void* memory, DeviceStream stream) = 0;
  /// Main memory that copies can read and write while the host goes on.
  virtual DeviceError allocate_pinned(void*& memory, std::size_t bytes) = 0;
  virtual void release_pinned(void* memory) = 0;

  virtual DeviceError copy_to_device(void* to, const void* from, std::size_t bytes,
                                     DeviceStream stream) = 0;
  virtual DeviceError copy_to_host(void* to, const void* from, std::size_t bytes,
                                   DeviceStream stream) = 0;
  virtual DeviceError copy_on_device(void* to, const void* from, std::size_t bytes,
                                     DeviceStream stream) = 0;

  // -- order -----------------------------------------------------------------------------------
  virtual DeviceError create_stream(DeviceStream& stream) = 0;
  virtual void destroy_stream(DeviceStream stream) = 0;
  virtual DeviceError create_event(DeviceEvent& event) = 0;
  virtual void destroy_event(DeviceEvent event) = 0;
  /// The event stands for everything that is in the stream now.
  virtual DeviceError record(DeviceEvent event, DeviceStream stream) = 0;
  /// What comes into the stream from now on waits for the event.
  virtual DeviceError wait(DeviceStream stream, DeviceEvent event) = 0;
  /// Has everything that the event stands for been done?
  virtual DeviceError query(DeviceEvent event, bool& done) = 0;
  virtual DeviceError synchronize(DeviceEvent event) = 0;
  virtual DeviceError synchronize_stream(DeviceStream stream) = 0;

  // -- graphs ----------------------------------------------------------------------------------
  /// From now on work for the stream is recorded instead of done. One stream at a time.
  virtual DeviceError begin_capture(DeviceStream stream) = 0;
  /// Ends the recording; also after a failure within it, which it then reports.
  virtual DeviceError end_capture(DeviceStream stream, DeviceGraph& graph) = 0;
  virtual void destroy_graph(DeviceGraph graph) = 0;
  virtual DeviceError launch(DeviceGraph graph, DeviceStream stream) = 0;

  // -- matrix products -------------------------------------------------------------------------
  /// Empty when gemm() can be used, else why not, one sentence.
  virtual std::string why_no_gemm() const = 0;
  /// A row of y has the same bits whatever `rows` is.
  virtual DeviceError gemm(const DeviceGemm& product, DeviceStream stream) = 0;

  /// What the kernel launches since the last call failed with, as far as it is known already.
  virtual DeviceError launch_error() = 0;
};

}  // namespace sluice::kernels
