#include "engine/backend/cpu_products.hpp"

#include <algorithm>

namespace sluice {

void CpuProducts::multiply(std::span<const Product> products) const {
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
  threads_.for_each_chunk(outputs, output_grain(outputs, work, *largest),
                          [&](std::size_t begin, std::size_t end, std::size_t thread) {
                            std::size_t first = 0;  // output 0 of the current product
                            for (const Product& product : products) {
                              const std::size_t count = product.projection->weight.rows;
                              const std::size_t from = std::max(begin, first);
                              const std::size_t to = std::min(end, first + count);
                              if (from < to)
                                multiply_columns(product, from - first, to - first, thread);
                              first += count;
                            }
                          });
}

void CpuProducts::multiply_columns(const Product& product, std::size_t begin, std::size_t end,
                                   std::size_t thread) const {
  const kernels::WeightMatrix& weight = product.projection->weight;
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
  constexpr std::size_t kChunkBytes = 64 * 1024;
  if (work < kWorthSharing) return outputs;
  // Few rows: runs of weights long enough for the memory; many rows: one decoded block.
  const std::size_t wanted =
      example.rows > 8 ? 2 * kLine : kChunkBytes / example.projection->weight.row_bytes;
  const std::size_t share = outputs / (4 * static_cast<std::size_t>(threads_.threads()));
  return std::max(std::min(wanted, share) / kLine * kLine, kLine);
}

}  // namespace sluice
