#include "engine/backend/cuda/device_kv_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "engine/backend/cuda/model_support.hpp"
#include "engine/base/error.hpp"

namespace sluice {
namespace {

namespace cuda = kernels::cuda;

cuda::KvType kv_type(DType type) {
  if (const auto found = cuda_kv_type(type)) return *found;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("A KV cache in {} has no CUDA kernel; use --kv-type f16, bf16, f32 or "
                          "q8_0.",
                          traits(type).name));
}

void check_shape(const KvPoolShape& shape) {
  for (std::size_t g = 0; g < shape.num_groups(); ++g) {
    if (shape.group(g).num_blocks >= 1 && shape.block_size >= 1) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a KV pool of {} blocks of {} positions holds nothing; both numbers "
                            "must be at least 1",
                            shape.group(g).num_blocks, shape.block_size));
  }
  if (!shape.swap_file.empty())
    throw Error(ErrorCode::kUnsupported,
                "Swap space of a CUDA device lies in main memory; leave --swap-file out.");
}

/// Room for `count` blocks behind `total`. Returns where it begins.
std::size_t take(std::size_t& total, std::int32_t count, std::size_t block_bytes) {
  const std::size_t begin = total;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(std::max(count, 0)), block_bytes, &bytes) ||
      __builtin_add_overflow(total, aligned_bytes(bytes), &total))
    throw Error(ErrorCode::kDoesNotFit,
                "the KV pool would be larger than any memory; use fewer blocks");
  return begin;
}

}  // namespace

DeviceKvPool::DeviceKvPool(const KvPoolShape& shape, const ModelConfig& config,
                           const KvTypes& types, DeviceQueue& queue)
    : shape_(shape) {
  check_kv_types(types, config);
  check_shape(shape);
  place_layers(config, types);
  memory_ = DeviceBuffer(queue, pool_bytes_, "the KV pool");
  swap_ = PinnedBuffer(queue, swap_total_, "the KV swap space");
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].k = memory_.bytes_at(places_[i].k_begin);
    layers_[i].v = memory_.bytes_at(places_[i].v_begin);
  }
  upload_regions(queue);
}

void DeviceKvPool::place_layers(const ModelConfig& config, const KvTypes& types) {
  for (std::int32_t index = 0; index < config.num_layers; ++index) {
    const KvGroup group = shape_.group(shape_.group_of(static_cast<std::size_t>(index)));
    const auto [type_k, type_v] = types.of_layer(index);
    cuda::KvLayer layer;
    layer.k_type = kv_type(type_k);
    layer.v_type = kv_type(type_v);
    layer.num_kv_heads = config.num_kv_heads;
    layer.head_dim = config.head_dim;
    layer.block_size = shape_.block_size;
    const std::size_t rows =
        static_cast<std::size_t>(shape_.block_size) * static_cast<std::size_t>(config.num_kv_heads);
    Place place;
    place.k_block_bytes = rows * cuda::kv_row_bytes(layer.k_type, layer.head_dim);
    place.v_block_bytes = rows * cuda::kv_row_bytes(layer.v_type, layer.head_dim);
    place.k_begin = take(pool_bytes_, group.num_blocks, place.k_block_bytes);
    place.v_begin = take(pool_bytes_, group.num_blocks, place.v_block_bytes);
    place.k_swap = take(swap_total_, group.swap_slots, place.k_block_bytes);
    place.v_swap = take(swap_total_, group.swap_slots, place.v_block_bytes);
    layers_.push_back(layer);
    places_.push_back(place);
  }
}

void DeviceKvPool::upload_regions(DeviceQueue& queue) {
  std::vector<cuda::BlockRegion> all;
  regions_.resize(shape_.num_groups());
  std::vector<std::size_t> first(3 * regions_.size());
  for (std::size_t g = 0; g < regions_.size(); ++g) {
    for (std::size_t kind = 0; kind < 3; ++kind) {
      first[3 * g + kind] = all.size();
      for (std::size_t i = 0; i < places_.size(); ++i) {
        if (shape_.group_of(i) != g) continue;
        const auto add = [&](std::size_t begin, std::size_t swap, std::size_t bytes) {
          std::byte* inside = memory_.bytes_at(begin);
          std::byte* outside = swap_.data() == nullptr ? nullptr : swap_.data() + swap;
          const bool in = kind == static_cast<std::size_t>(BlockMove::Kind::kSwapIn);
          const bool out = kind == static_cast<std::size_t>(BlockMove::Kind::kSwapOut);
          all.push_back({in ? outside : inside, out ? outside : inside, bytes});
        };
        add(places_[i].k_begin, places_[i].k_swap, places_[i].k_block_bytes);
        add(places_[i].v_begin, places_[i].v_swap, places_[i].v_block_bytes);
      }
    }
    regions_[g].count = static_cast<std::int32_t>(all.size() - first[3 * g + 2]);
  }
  const std::size_t bytes = all.size() * sizeof(cuda::BlockRegion);
  region_memory_ = DeviceBuffer(queue, bytes, "the KV pool");
  for (std::size_t g = 0; g < regions_.size(); ++g)
    for (std::size_t kind = 0; kind < 3; ++kind)
      regions_[g].of_kind[kind] = region_memory_.as<cuda::BlockRegion>() + first[3 * g + kind];
  PinnedBuffer stage(queue, bytes, "the KV pool");
  std::copy_n(std::as_bytes(std::span(all)).data(), bytes, stage.data());
  queue.upload(region_memory_.data(), stage.data(), bytes);
  queue.synchronize();
  require(queue.error(), "preparing the KV pool");
}

std::int32_t DeviceKvPool::positions() const {
  std::int64_t most = 0;
  for (std::size_t g = 0; g < shape_.num_groups(); ++g)
    most = std::max(most, std::int64_t{shape_.group(g).num_blocks} * shape_.block_size);
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(most, std::numeric_limits<std::int32_t>::max() / 2));
}

bool DeviceKvPool::has(const BlockMove& move) const {
  if (move.group < 0 || static_cast<std::size_t>(move.group) >= shape_.num_groups()) return false;
  const KvGroup group = shape_.group(static_cast<std::size_t>(move.group));
  const bool from_swap = move.kind == BlockMove::Kind::kSwapIn;
  const bool to_swap = move.kind == BlockMove::Kind::kSwapOut;
  return move.from >= 0 && move.from < (from_swap ? group.swap_slots : group.num_blocks) &&
         move.to >= 0 && move.to < (to_swap ? group.swap_slots : group.num_blocks);
}

std::vector<MoveRun> DeviceKvPool::runs_of(std::span<const BlockMove> moves) {
  std::vector<MoveRun> runs;
  std::set<std::int32_t> read;
  std::set<std::int32_t> written;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const BlockMove& move = moves[i];
    const auto group = static_cast<std::size_t>(move.group);
    // Both sides are numbered alike only where a block becomes another block.
    const bool inside = move.kind == BlockMove::Kind::kCopy;
    const bool touches = written.contains(move.to) ||
                         (inside && (written.contains(move.from) || read.contains(move.to)));
    if (runs.empty() || runs.back().kind != move.kind || runs.back().group != group || touches) {
      runs.push_back({move.kind, group, i, 0});
      read.clear();
      written.clear();
    }
    ++runs.back().count;
    read.insert(move.from);
    written.insert(move.to);
  }
  return runs;
}

void DeviceKvPool::move(const MoveRun& run, const cuda::BlockPair* pairs,
                        DeviceQueue& queue) const {
  const Regions& regions = regions_[run.group];
  const cuda::BlockRegion* of_kind = regions.of_kind[static_cast<std::size_t>(run.kind)];
  const auto count = static_cast<std::int32_t>(run.count);
  queue.launch([=, num = regions.count](cuda::Stream stream) {
    return cuda::copy_blocks(of_kind, num, pairs, count, stream);
  });
}

}  // namespace sluice
