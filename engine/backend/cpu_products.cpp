#include "engine/backend/cpu_products.hpp"

#include <algorithm>
#include <cassert>

namespace sluice {

void CpuProducts::multiply(std::span<const Product> products) {
  std::size_t outputs = 0;
  std::size_t work = 0;
  const Product* largest = products.data();
  for (const Product& product : products) {
    const kernels::WeightMatrix& weight = product.projection->weight;
    outputs += weight.rows;
    work += product.rows * weight.rows * weight.cols;
    if (product.rows > largest->rows) largest = &product;
  }
  if (outputs == 0) return;
  const std::span<const std::byte* const> rounded = prepare(products);
  threads_.for_each_chunk(outputs, output_grain(outputs, work, *largest),
                          [&](std::size_t begin, std::size_t end, std::size_t thread) {
                            std::size_t first = 0;  // output 0 of the current product
                            for (std::size_t i = 0; i < products.size(); ++i) {
                              const Product& product = products[i];
                              const std::size_t count = product.projection->weight.rows;
                              const std::size_t from = std::max(begin, first);
                              const std::size_t to = std::min(end, first + count);
                              if (from < to)
                                multiply_columns(product, rounded[i], from - first, to - first,
                                                 thread);
                              first += count;
                            }
                          });
}

std::span<const std::byte* const> CpuProducts::prepare(std::span<const Product> products) {
  prepared_.clear();
  std::byte* next = rounded_.data();
  const Product* before = nullptr;  // the last product whose input was rounded
  for (const Product& product : products) {
    const kernels::WeightMatrix& weight = product.projection->weight;
    if (weight.packed == nullptr) {
      prepared_.push_back(nullptr);
      continue;
    }
    const kernels::PackedKernels& packed = kernels_.packed_for(weight.packable);
    const std::size_t row_bytes = kernels::prepared_row_bytes(weight.packable, weight.cols);
    if (before != nullptr && before->x == product.x && before->rows == product.rows &&
        &packed == &kernels_.packed_for(before->projection->weight.packable)) {
      prepared_.push_back(next - product.rows * row_bytes);
      continue;
    }
    for_each_row(product.rows, [&](std::size_t row) {
      packed.prepare_row(product.x + row * weight.cols, weight.cols, next + row * row_bytes);
    });
    assert(static_cast<std::size_t>(next - rounded_.data()) + product.rows * row_bytes <=
           rounded_.size());
    prepared_.push_back(next);
    next += product.rows * row_bytes;
    before = &product;
  }
  return prepared_;
}

void CpuProducts::multiply_columns(const Product& product, const std::byte* rounded,
                                   std::size_t begin, std::size_t end, std::size_t thread) const {
  const kernels::WeightMatrix& weight = product.projection->weight;
  if (weight.packed != nullptr)
    kernels_.packed_for(weight.packable)
        .matmul({weight.packed, weight.packable, weight.cols, rounded, product.rows, product.y,
                 weight.rows},
                begin, end, reinterpret_cast<std::byte*>(thread_space(thread)));
  else
    kernels_.matmul(weight, {product.x, weight.cols, product.rows, product.y, weight.rows}, begin,
                    end, thread_space(thread));
  if (product.projection->bias.empty()) return;
  for (std::size_t row = 0; row < product.rows; ++row)
    kernels_.add(product.y + row * weight.rows + begin, product.projection->bias.data() + begin,
                 end - begin);
}

std::size_t CpuProducts::output_grain(std::size_t outputs, std::size_t work,
                                      const Product& example) const {
  constexpr std::size_t kLine = 16;  // whole cache lines of output: threads share none
  constexpr std::size_t kWorthSharing = 64 * 1024;  // multiplications
  constexpr std::size_t kChunkBytes = 256 * 1024;
  if (work < kWorthSharing) return outputs;
  // Few rows: runs of weights long enough for the memory; many rows: what a cache holds decoded.
  const std::size_t wanted =
      example.rows > 8 ? 4 * kLine : kChunkBytes / example.projection->weight.row_bytes;
  const std::size_t share = outputs / (4 * static_cast<std::size_t>(threads_.threads()));
  return std::max(std::min(wanted, share) / kLine * kLine, kLine);
}

}  // namespace sluice
