// Matrix products of a step, shared out to threads.
//
// Each output depends on its own row of activations alone (kernels.hpp says so), so how the work
// is cut up here changes no result.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/model/decoder_weights.hpp"
#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/thread_pool.hpp"

namespace sluice {

/// y = projection(x): input [rows x weight.cols], output [rows x weight.rows], both dense.
struct Product {
  const Projection* projection = nullptr;
  const float* x = nullptr;
  float* y = nullptr;
  std::size_t rows = 0;
};

class CpuProducts {
 public:
  /// `per_thread`: `thread_floats` floats of work space for each thread of the pool.
  /// `rounded`: room for the inputs of one multiply() after quantize_row, 64-byte aligned.
  CpuProducts(const kernels::KernelTable& kernels, kernels::ThreadPool& threads, float* per_thread,
              std::size_t thread_floats, std::span<float> rounded)
      : kernels_(kernels),
        threads_(threads),
        per_thread_(per_thread),
        thread_floats_(thread_floats),
        rounded_(std::as_writable_bytes(rounded)) {}

  const kernels::KernelTable& kernels() const { return kernels_; }
  kernels::ThreadPool& threads() const { return threads_; }
  float* thread_space(std::size_t thread) const { return per_thread_ + thread * thread_floats_; }

  /// Runs several products as one parallel loop over all their outputs.
  void multiply(std::span<const Product> products);

  /// Rounds the inputs of those products that have packed weights. Neighbours with the same input
  /// share it. Gives the rounded rows of each product, null where it needs none; valid until the
  /// next call.
  std::span<const std::byte* const> prepare(std::span<const Product> products);

  /// Outputs [begin, end) of one product, bias included, by one thread. `rounded`: what prepare()
  /// gave for it.
  void multiply_columns(const Product& product, const std::byte* rounded, std::size_t begin,
                        std::size_t end, std::size_t thread) const;

  /// Outputs handed to a thread at a time, of `outputs` that take `work` multiplications.
  std::size_t output_grain(std::size_t outputs, std::size_t work, const Product& example) const;

  /// Calls f(row) for each row, in parallel when it is worth it.
  template <class F>
  void for_each_row(std::size_t rows, const F& f) const {
    constexpr std::size_t kWorthSharing = 8;
    if (rows < kWorthSharing) {
      for (std::size_t row = 0; row < rows; ++row) f(row);
      return;
    }
    threads_.for_each_chunk(rows, 4, [&](std::size_t begin, std::size_t end, std::size_t) {
      for (std::size_t row = begin; row < end; ++row) f(row);
    });
  }

 private:
  const kernels::KernelTable& kernels_;
  kernels::ThreadPool& threads_;
  float* per_thread_;
  std::size_t thread_floats_;
  std::span<std::byte> rounded_;
  std::vector<const std::byte*> prepared_;  ///< for each product of the current call
};

}  // namespace sluice
