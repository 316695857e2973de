#include "bench/suites/kernel_suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "engine/backend/mapped_memory.hpp"
#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/thread_pool.hpp"

namespace sluice::bench {
namespace {

using kernels::PackedFormat;

constexpr std::size_t kRows = 4864;         ///< outputs: a feed-forward of Qwen2.5-0.5B
constexpr std::size_t kCols = 1024;         ///< near its 896, and whole super-blocks
constexpr std::size_t kBytes = 96U << 20U;  ///< of weights that one measurement passes over
constexpr std::size_t kChunk = 64;          ///< outputs a thread takes at a time

constexpr std::pair<PackedFormat, const char*> kFormats[] = {
    {PackedFormat::kQ8_0, "q8_0"}, {PackedFormat::kQ4_0, "q4_0"}, {PackedFormat::kQ5_0, "q5_0"},
    {PackedFormat::kQ4_K, "q4_k"}, {PackedFormat::kQ5_K, "q5_k"}, {PackedFormat::kQ6_K, "q6_k"},
    {PackedFormat::kBF16, "bf16"}, {PackedFormat::kF16, "f16"}};

/// The table, the threads and their work space.
struct Machine {
  const kernels::KernelTable& table;
  kernels::ThreadPool threads;
  std::size_t space_bytes;
  MappedMemory space;

  explicit Machine(const BenchSettings& settings)
      : table(kernels::kernel_table(
            kernels::isa_from_key(settings.backend.kernels).value_or(kernels::best_isa()))),
        threads(settings.backend.threads),
        space_bytes((kernels::packed_workspace_bytes(kCols) + 4095) / 4096 * 4096),
        space(space_bytes * static_cast<std::size_t>(threads.threads()), "work buffers") {}
};

struct Work {
  double bytes = 0;
  double operations = 0;
  std::string peak_name;
  double peak = 0;  ///< 10^9 operations a second
};

Figure figure_of(std::string what, const std::vector<double>& seconds, const Work& work,
                 const MachineLimits& limits) {
  std::vector<double> rates;
  for (const double s : seconds) rates.push_back(work.operations / s * 1e-9);
  const double median = spread_of(seconds).median;
  const double memory = work.bytes / (limits.read_gbs * 1e9);
  const double compute = work.operations / (work.peak * 1e9);
  return {"kernels",
          std::move(what),
          "GOP/s",
          spread_of(std::move(rates)),
          memory > compute ? "memory" : work.peak_name,
          100.0 * std::max(memory, compute) / median,
          fmt::format("{:.1f} GB/s", work.bytes / median * 1e-9)};
}

void set_peak(Work& work, PackedFormat format, const MachineLimits& limits) {
  const bool half = format == PackedFormat::kF16;
  const bool bf16 = format == PackedFormat::kBF16;
  work.peak_name = half ? "f32 peak" : (bf16 ? "bf16 peak" : "int8 peak");
  work.peak = half ? limits.f32_gflops : (bf16 ? limits.bf16_gflops : limits.int8_gops);
}

Figure measure_product(Machine& machine, LimitProbe& probe, PackedFormat format, const char* name,
                       std::size_t rows, int repeats) {
  const std::size_t bytes = kernels::packed_bytes(format, kRows, kCols);
  const std::size_t copies = std::max<std::size_t>(1, (rows > 32 ? kBytes / 8 : kBytes) / bytes);
  const std::size_t row_bytes = kernels::prepared_row_bytes(format, kCols);
  MappedMemory weights(bytes * copies, "weights");
  weights.use_large_pages();
  const MappedMemory x(row_bytes * rows, "activations");
  std::fill_n(weights.data(), bytes * copies, std::byte{0});
  std::vector<float> y(rows * kRows);
  const kernels::PackedKernels& packed = machine.table.packed_for(format);
  constexpr std::size_t kChunks = kRows / kChunk;
  const auto seconds = repeat(repeats, [&] {
    const auto start = std::chrono::steady_clock::now();
    machine.threads.for_each_chunk(
        copies * kChunks, 1, [&](std::size_t chunk, std::size_t, std::size_t thread) {
          const std::size_t first = chunk % kChunks * kChunk;
          packed.matmul({weights.data() + chunk / kChunks * bytes, format, kCols, x.data(), rows,
                         y.data(), kRows},
                        first, first + kChunk, machine.space.data() + thread * machine.space_bytes);
        });
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  });
  const MachineLimits limits = probe.measure();
  Work work;
  work.bytes = static_cast<double>(bytes * copies);
  work.operations = 2.0 * static_cast<double>(rows * kRows * kCols * copies);
  set_peak(work, format, limits);
  return figure_of(fmt::format("{}, {} row{}", name, rows, rows == 1 ? "" : "s"), seconds, work,
                   limits);
}

/// 14 query heads on 2 KV heads of 64, K and V in f16, for some rows after `before` positions.
Figure measure_attention(Machine& machine, LimitProbe& probe, std::size_t before, std::size_t rows,
                         int repeats) {
  constexpr std::size_t kHeads = 14;
  constexpr std::size_t kDim = 64;
  constexpr std::size_t kLayers = 24;  // more K and V than the caches hold
  kernels::KvLayer layer;
  layer.num_kv_heads = 2;
  layer.head_dim = kDim;
  layer.block_size = 16;
  const std::size_t blocks = (before + rows + layer.block_size - 1) / layer.block_size;
  const std::size_t layer_bytes = blocks * layer.block_size * layer.num_kv_heads * kDim * 2;
  const MappedMemory kv(2 * layer_bytes * kLayers, "K and V");
  std::fill_n(kv.data(), 2 * layer_bytes * kLayers, std::byte{0});
  std::vector<std::int32_t> table(blocks);
  for (std::size_t i = 0; i < blocks; ++i) table[i] = static_cast<std::int32_t>(i);
  std::vector<float> q(rows * kHeads * kDim, 0.01F);
  std::vector<float> out(q.size());
  const std::size_t space = kernels::attention_workspace_floats(kHeads, 2, kDim);
  std::vector<float> spaces(space * static_cast<std::size_t>(machine.threads.threads()));
  kernels::AttentionOperands operands;
  operands.q = q.data();
  operands.out = out.data();
  operands.stride = kHeads * kDim;
  operands.num_heads = kHeads;
  operands.scale = 0.125F;
  operands.first_position = before;
  operands.blocks = table.data();
  const std::size_t pieces = (rows + kernels::kAttentionRows - 1) / kernels::kAttentionRows;
  const auto seconds = repeat(repeats, [&] {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t index = 0; index < kLayers; ++index) {
      layer.k = kv.data() + 2 * layer_bytes * index;
      layer.v = layer.k + layer_bytes;
      machine.threads.for_each_chunk(
          pieces * 2, 1, [&](std::size_t unit, std::size_t, std::size_t thread) {
            const std::size_t row = unit / 2 * kernels::kAttentionRows;
            machine.table.attention(layer, operands, unit % 2, row,
                                    std::min(row + kernels::kAttentionRows, rows),
                                    spaces.data() + thread * space);
          });
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  });
  const MachineLimits limits = probe.measure();
  const auto pairs = static_cast<double>(rows * before + rows * (rows + 1) / 2);
  Work work;
  work.bytes = static_cast<double>(2 * layer_bytes * kLayers);
  work.operations = 4.0 * pairs * kHeads * kDim * kLayers;
  set_peak(work, PackedFormat::kF16, limits);
  return figure_of(rows == 1 ? fmt::format("attention, 1 row after {}", before)
                             : fmt::format("attention, a prompt of {}", rows),
                   seconds, work, limits);
}

}  // namespace

std::vector<Figure> run_kernels(const BenchSettings& settings, LimitProbe& probe) {
  Machine machine(settings);
  std::vector<Figure> figures;
  for (const auto& [format, name] : kFormats) {
    if (machine.table.packed_for(format).matmul == nullptr) continue;
    for (const std::size_t rows : {1U, 8U, 32U, 512U})
      figures.push_back(measure_product(machine, probe, format, name, rows, settings.repeats));
  }
  figures.push_back(measure_attention(machine, probe, 4096, 1, settings.repeats));
  figures.push_back(measure_attention(machine, probe, 0, 512, settings.repeats));
  return figures;
}

}  // namespace sluice::bench
