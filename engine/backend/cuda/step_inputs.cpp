#include "engine/backend/cuda/step_inputs.hpp"

#include <algorithm>
#include <bit>

#include "engine/base/kv_group.hpp"

namespace sluice {
namespace {

namespace cuda = kernels::cuda;

/// Steps of more rows are not recorded.
constexpr std::int32_t kMostBucketRows = 256;

std::int32_t number(std::size_t n) {
  return static_cast<std::int32_t>(n);
}

std::int32_t end_of(const StepSlice& slice) {
  return slice.first_position + number(slice.tokens.size());
}

/// Counts what the arrays of a step need before any is taken.
struct Amounts {
  std::size_t rows = 0;
  std::size_t slices = 0;
  std::size_t stride = 0;
  std::size_t tiles = 0;
  std::size_t sampled = 0;
  std::size_t biases = 0;
  std::size_t banned = 0;
  std::size_t history = 0;
  std::size_t moves = 0;

  std::size_t bytes(std::size_t groups) const {
    return 3 * aligned_bytes(rows * sizeof(std::int32_t)) +
           groups * aligned_bytes(slices * stride * sizeof(std::int32_t)) +
           aligned_bytes(tiles * sizeof(cuda::PrefillTile)) +
           aligned_bytes(sampled * sizeof(std::int32_t)) +
           aligned_bytes(sampled * sizeof(cuda::RowSampling)) +
           aligned_bytes(biases * sizeof(cuda::LogitBias)) +
           aligned_bytes(banned * sizeof(std::int32_t)) +
           aligned_bytes(history * sizeof(std::int32_t)) +
           aligned_bytes(moves * sizeof(cuda::BlockPair));
  }
};

bool bans(const StepSlice& slice) {
  return slice.num_generated < slice.sampling->min_new_tokens;
}

Amounts count(const StepBatch& batch, const StepInputs& inputs, const KvPoolShape& pool,
              std::int32_t tile_rows) {
  const StepView& view = inputs.view;
  Amounts need;
  std::int32_t longest = view.bucket.positions;
  for (const std::size_t i : inputs.slices) {
    const StepSlice& slice = batch.slices[i];
    longest = std::max(longest, end_of(slice));
    if (slice.tokens.size() > 1)
      need.tiles += (slice.tokens.size() + static_cast<std::size_t>(tile_rows) - 1) /
                    static_cast<std::size_t>(tile_rows);
    if (!slice.sample) continue;
    need.biases += slice.sampling->logit_bias.size();
    need.banned += bans(slice) ? slice.sampling->banned_before_min.size() : 0;
    need.history += slice.sampling->needs_history() ? slice.history.size() : 0;
  }
  need.rows = static_cast<std::size_t>(view.rows);
  need.slices =
      std::max<std::size_t>(inputs.slices.size(), static_cast<std::size_t>(view.bucket.rows));
  need.stride = static_cast<std::size_t>((longest + pool.block_size - 1) / pool.block_size);
  need.sampled = static_cast<std::size_t>(view.num_sampled);
  need.moves = batch.moves.size();
  return need;
}

/// Decides the order of rows and the bucket.
void arrange(const StepBatch& batch, std::span<const std::size_t> accepted, StepInputs& inputs) {
  inputs.slices.assign(accepted.begin(), accepted.end());
  std::stable_partition(inputs.slices.begin(), inputs.slices.end(),
                        [&](std::size_t i) { return batch.slices[i].tokens.size() == 1; });
  inputs.first_row.assign(batch.slices.size(), -1);
  StepView& view = inputs.view;
  for (const std::size_t i : inputs.slices) {
    const StepSlice& slice = batch.slices[i];
    inputs.first_row[i] = view.rows;
    view.rows += number(slice.tokens.size());
    if (slice.tokens.size() == 1) {
      ++view.decode_rows;
      view.positions = std::max(view.positions, end_of(slice));
    }
    if (slice.sample) inputs.drawing.push_back(i);
  }
  view.num_sampled = number(inputs.drawing.size());
  if (view.rows == 0 || view.decode_rows != view.rows || view.rows > kMostBucketRows) return;
  view.bucket = bucket_for(view.rows, view.positions);
  view.rows = view.decode_rows = view.num_sampled = view.bucket.rows;
  view.positions = view.bucket.positions;
}

void fill_rows(const StepBatch& batch, StepInputs& inputs, std::size_t count,
               StepStaging& staging) {
  const auto ids = staging.take<std::int32_t>(count);
  const auto positions = staging.take<std::int32_t>(count);
  const auto sequences = staging.take<std::int32_t>(count);
  std::ranges::fill(ids.host, -1);
  std::ranges::fill(positions.host, -1);
  std::ranges::fill(sequences.host, 0);
  std::size_t row = 0;
  for (std::size_t s = 0; s < inputs.slices.size(); ++s) {
    const StepSlice& slice = batch.slices[inputs.slices[s]];
    for (std::size_t i = 0; i < slice.tokens.size(); ++i, ++row) {
      ids.host[row] = slice.tokens[i];
      positions.host[row] = slice.first_position + number(i);
      sequences.host[row] = number(s);
    }
  }
  inputs.view.ids = ids.device;
  inputs.view.row_positions = positions.device;
  inputs.view.sequences = sequences.device;
}

void fill_tables(const StepBatch& batch, StepInputs& inputs, const Amounts& need,
                 std::size_t groups, StepStaging& staging) {
  for (std::size_t g = 0; g < groups; ++g) {
    const auto tables = staging.take<std::int32_t>(need.slices * need.stride);
    std::ranges::fill(tables.host, kNoBlock);
    for (std::size_t s = 0; s < inputs.slices.size(); ++s) {
      const std::vector<BlockId>& table = batch.slices[inputs.slices[s]].table(g);
      std::copy_n(table.begin(), std::min(table.size(), need.stride),
                  tables.host.begin() + static_cast<std::ptrdiff_t>(s * need.stride));
    }
    inputs.view.tables.push_back(tables.device);
  }
  inputs.view.table_stride = number(need.stride);
}

void fill_tiles(const StepBatch& batch, StepInputs& inputs, std::size_t count,
                std::int32_t tile_rows, StepStaging& staging) {
  const auto tiles = staging.take<cuda::PrefillTile>(count);
  std::size_t next = 0;
  for (const std::size_t i : inputs.slices) {
    const std::int32_t rows = number(batch.slices[i].tokens.size());
    if (rows == 1) continue;
    for (std::int32_t at = 0; at < rows; at += tile_rows)
      tiles.host[next++] = {inputs.first_row[i] + at, std::min(tile_rows, rows - at)};
  }
  inputs.view.tiles = tiles.device;
  inputs.view.num_tiles = number(count);
}

/// Lists of one kind, one row's after the other's.
template <class T>
class ListWriter {
 public:
  explicit ListWriter(Staged<T> list) : list_(list) {}
  template <class From>
  void append(const From& from, std::int32_t& first, std::int32_t& num) {
    first = number(used_);
    num = number(from.size());
    for (const auto& entry : from) list_.host[used_++] = convert(entry);
  }
  const T* device() const { return list_.device; }

 private:
  static std::int32_t convert(std::int32_t id) { return id; }
  static cuda::LogitBias convert(const LogitBias& bias) { return {bias.token, bias.bias}; }

  Staged<T> list_;
  std::size_t used_ = 0;
};

cuda::RowSampling row_sampling(const StepSlice& slice) {
  const SamplingParams& params = *slice.sampling;
  cuda::RowSampling row;
  row.active = 1;
  row.position = end_of(slice);
  row.seed = params.seed;
  row.temperature = params.temperature;
  row.top_p = params.top_p;
  row.min_p = params.min_p;
  row.top_k = params.top_k;
  row.repetition_penalty = params.repetition_penalty;
  row.presence_penalty = params.presence_penalty;
  row.frequency_penalty = params.frequency_penalty;
  row.num_top_logprobs = params.num_top_logprobs;
  row.num_generated = slice.num_generated;
  return row;
}

void fill_sampling(const StepBatch& batch, StepInputs& inputs, const Amounts& need,
                   StepStaging& staging) {
  const auto sampled = staging.take<std::int32_t>(need.sampled);
  const auto rows = staging.take<cuda::RowSampling>(need.sampled);
  ListWriter biases(staging.take<cuda::LogitBias>(need.biases));
  ListWriter banned(staging.take<std::int32_t>(need.banned));
  ListWriter history(staging.take<std::int32_t>(need.history));
  std::ranges::fill(sampled.host, -1);
  std::ranges::fill(rows.host, cuda::RowSampling{});
  for (std::size_t n = 0; n < inputs.drawing.size(); ++n) {
    const StepSlice& slice = batch.slices[inputs.drawing[n]];
    sampled.host[n] = inputs.first_row[inputs.drawing[n]] + number(slice.tokens.size()) - 1;
    cuda::RowSampling& row = rows.host[n];
    row = row_sampling(slice);
    biases.append(slice.sampling->logit_bias, row.first_bias, row.num_biases);
    if (bans(slice))
      banned.append(slice.sampling->banned_before_min, row.first_banned, row.num_banned);
    if (slice.sampling->needs_history())
      history.append(slice.history, row.first_history, row.num_history);
  }
  inputs.view.sampled = sampled.device;
  inputs.view.sampling = rows.device;
  inputs.view.biases = biases.device();
  inputs.view.banned = banned.device();
  inputs.view.history = history.device();
}

void fill_moves(const StepBatch& batch, StepInputs& inputs, StepStaging& staging) {
  const auto pairs = staging.take<cuda::BlockPair>(batch.moves.size());
  for (std::size_t i = 0; i < batch.moves.size(); ++i)
    pairs.host[i] = {batch.moves[i].from, batch.moves[i].to};
  inputs.view.moves = pairs.device;
}

}  // namespace

StepBucket bucket_for(std::int32_t rows, std::int32_t positions) {
  const auto up = std::bit_ceil(static_cast<std::uint32_t>(std::max(rows, 1)));
  // Half way between two powers of two lies another.
  const std::uint32_t between = up / 4 * 3;
  const std::uint32_t chosen = between >= static_cast<std::uint32_t>(rows) ? between : up;
  return {static_cast<std::int32_t>(chosen),
          static_cast<std::int32_t>(
              std::bit_ceil(static_cast<std::uint32_t>(std::max(positions, 256))))};
}

std::int32_t rows_with_padding(std::int32_t tokens) {
  return std::max(tokens, bucket_for(std::min(tokens, kMostBucketRows), 1).rows);
}

StepInputs stage_step(const StepBatch& batch, std::span<const std::size_t> accepted,
                      const KvPoolShape& pool, std::int32_t tile_rows, StepStaging& staging) {
  StepInputs inputs;
  arrange(batch, accepted, inputs);
  const Amounts need = count(batch, inputs, pool, tile_rows);
  staging.begin(need.bytes(pool.num_groups()));
  // First what a graph reads, so that its addresses follow from the bucket alone.
  fill_rows(batch, inputs, need.rows, staging);
  fill_tables(batch, inputs, need, pool.num_groups(), staging);
  fill_tiles(batch, inputs, need.tiles, tile_rows, staging);
  fill_sampling(batch, inputs, need, staging);
  fill_moves(batch, inputs, staging);
  return inputs;
}

}  // namespace sluice
