// How a batch is laid out for the device.
#include <catch2/catch.hpp>
#include <numeric>

#include "engine/backend/cuda/step_inputs.hpp"
#include "tests/support/cuda_under_test.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

StepSlice slice(Position first, std::vector<TokenId> tokens, std::vector<BlockId> blocks,
                bool sample) {
  StepSlice s;
  s.first_position = first;
  s.tokens = std::move(tokens);
  s.blocks = std::move(blocks);
  s.sample = sample;
  if (sample) s.sampling = std::make_shared<SamplingParams>();
  return s;
}

template <class T>
std::vector<T> read(DeviceQueue& queue, const T* device, std::size_t n) {
  PinnedBuffer here(queue, n * sizeof(T), "a test");
  queue.download(here.data(), device, n * sizeof(T));
  queue.synchronize();
  const auto* begin = reinterpret_cast<const T*>(here.data());
  return {begin, begin + n};
}

std::vector<std::size_t> all_of(const StepBatch& batch) {
  std::vector<std::size_t> all(batch.slices.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

}  // namespace

TEST_CASE("buckets are the next of few sizes") {
  CHECK(bucket_for(1, 1) == StepBucket{1, 256});
  CHECK(bucket_for(3, 257) == StepBucket{3, 512});
  CHECK(bucket_for(5, 256) == StepBucket{6, 256});
  CHECK(bucket_for(7, 4096) == StepBucket{8, 4096});
  CHECK(bucket_for(33, 1) == StepBucket{48, 256});
  for (std::int32_t rows = 1; rows <= 300; ++rows) {
    CHECK(bucket_for(rows, rows).rows >= rows);
    CHECK(bucket_for(rows, rows).rows <= rows + (rows + 1) / 2);
    CHECK(rows_with_padding(rows) >= (rows <= 256 ? bucket_for(rows, 1).rows : rows));
  }
}

TEST_CASE("single tokens come first and chunks are cut into tiles") {
  const auto device = open_device_under_test();
  DeviceQueue queue(*device);
  StepStaging staging(queue, 64);  // grows
  StepBatch batch;
  batch.slices = {slice(20, {7}, {4, 9}, true), slice(3, {1, 2, 3, 4, 5}, {2}, false),
                  slice(0, {8}, {1}, true)};
  batch.moves = {{BlockMove::Kind::kCopy, 0, 3, 5}};
  const StepInputs inputs = stage_step(batch, all_of(batch), {16, 16}, 2, staging);
  staging.send(queue);
  const StepView& view = inputs.view;
  CHECK(view.bucket.rows == 0);
  CHECK(view.rows == 7);
  CHECK(view.decode_rows == 2);
  CHECK(view.positions == 21);
  CHECK(inputs.first_row == std::vector<std::int32_t>{0, 2, 1});
  CHECK(read(queue, view.ids, 7) == std::vector<std::int32_t>{7, 8, 1, 2, 3, 4, 5});
  CHECK(read(queue, view.row_positions, 7) == std::vector<std::int32_t>{20, 0, 3, 4, 5, 6, 7});
  CHECK(read(queue, view.sequences, 7) == std::vector<std::int32_t>{0, 1, 2, 2, 2, 2, 2});
  REQUIRE(view.table_stride == 2);
  CHECK(read(queue, view.tables.at(0), 6) == std::vector<std::int32_t>{4, 9, 1, -1, 2, -1});
  REQUIRE(view.num_tiles == 3);
  const auto tiles = read(queue, view.tiles, 3);
  CHECK(tiles[2].first_row == 6);
  CHECK(tiles[2].num_rows == 1);
  CHECK(inputs.drawing == std::vector<std::size_t>{0, 2});
  CHECK(read(queue, view.sampled, 2) == std::vector<std::int32_t>{0, 1});
  CHECK(read(queue, view.moves, 1)[0].to == 5);
}

TEST_CASE("decoding rows are filled up with padding that names nothing") {
  const auto device = open_device_under_test();
  DeviceQueue queue(*device);
  StepStaging staging(queue, 1 << 16);
  StepBatch batch;
  for (TokenId i = 0; i < 5; ++i) batch.slices.push_back(slice(300, {i}, {0, 1, 2, 3}, i != 2));
  for (StepSlice& s : batch.slices) s.blocks.resize(19, 6);
  const StepInputs inputs = stage_step(batch, all_of(batch), {16, 16}, 16, staging);
  staging.send(queue);
  const StepView& view = inputs.view;
  CHECK(view.bucket == StepBucket{6, 512});
  CHECK(view.rows == 6);
  CHECK(view.decode_rows == 6);
  CHECK(view.num_sampled == 6);
  CHECK(view.table_stride == 32);
  CHECK(read(queue, view.row_positions, 6) ==
        std::vector<std::int32_t>{300, 300, 300, 300, 300, -1});
  CHECK(read(queue, view.ids, 6).back() == -1);
  CHECK(read(queue, view.sampled, 6) == std::vector<std::int32_t>{0, 1, 3, 4, -1, -1});
  const auto sampling = read(queue, view.sampling, 6);
  CHECK(sampling[3].active == 1);
  CHECK(sampling[3].position == 301);
  CHECK(sampling[4].active == 0);

  // Another step of the bucket lies in the same places.
  batch.slices.resize(6, batch.slices[0]);
  batch.slices[1].sampling = [] {
    auto params = std::make_shared<SamplingParams>();
    params->logit_bias = {{1, 1.0F}, {2, 2.0F}};
    return params;
  }();
  const StepInputs again = stage_step(batch, all_of(batch), {16, 16}, 16, staging);
  CHECK(again.view.ids == view.ids);
  CHECK(again.view.tables == view.tables);
  CHECK(again.view.sampled == view.sampled);
  staging.send(queue);
  CHECK(read(queue, again.view.sampling, 2)[1].num_biases == 2);
  CHECK(read(queue, again.view.biases, 2)[1].bias == 2.0F);
}

TEST_CASE("slices that were not accepted have no rows") {
  const auto device = open_device_under_test();
  DeviceQueue queue(*device);
  StepStaging staging(queue, 1 << 16);
  StepBatch batch;
  batch.slices = {slice(0, {1, 2}, {0}, true), slice(0, {3}, {1}, true)};
  const StepInputs inputs = stage_step(batch, std::vector<std::size_t>{1}, {16, 16}, 16, staging);
  CHECK(inputs.first_row == std::vector<std::int32_t>{-1, 0});
  CHECK(inputs.view.decode_rows == 1);
  CHECK(inputs.view.bucket.rows == 1);
  CHECK(stage_step(batch, {}, {16, 16}, 16, staging).view.rows == 0);
}
