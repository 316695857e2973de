#include "engine/model/key_basis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fstream>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "SLKEYS01";
constexpr std::uint32_t kMostLayers = 100'000;
constexpr std::uint32_t kMostHeads = 100'000;

void write(std::ofstream& file, const void* data, std::size_t bytes) {
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

bool read(std::ifstream& file, void* data, std::size_t bytes) {
  file.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
  return static_cast<std::size_t>(file.gcount()) == bytes;
}

[[noreturn]] void corrupt(const std::filesystem::path& path, std::string_view what) {
  throw Error(ErrorCode::kCorrupt,
              fmt::format("{} {}; make it anew with sluice calibrate-keys.", path.string(), what));
}

}  // namespace

double KeyBasis::share_of(std::int32_t rank) const {
  double all = 0.0;
  double kept = 0.0;
  for (std::size_t i = 0; i < variances.size(); ++i) {
    all += static_cast<double>(variances[i]);
    if (i % static_cast<std::size_t>(head_dim) < static_cast<std::size_t>(rank))
      kept += static_cast<double>(variances[i]);
  }
  return all > 0.0 ? kept / all : 1.0;
}

void write_key_basis(const KeyBasis& basis, const std::filesystem::path& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const std::array<std::int32_t, 3> shape{basis.num_layers, basis.num_kv_heads, basis.head_dim};
  write(file, kMagic.data(), kMagic.size());
  write(file, shape.data(), sizeof(shape));
  for (const std::vector<float>* part : {&basis.means, &basis.variances, &basis.vectors})
    write(file, part->data(), part->size() * sizeof(float));
  file.flush();
  if (!file)
    throw Error(ErrorCode::kIo,
                fmt::format("The key basis could not be written to {}.", path.string()));
}

KeyBasis read_key_basis(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  const std::uintmax_t file_bytes = std::filesystem::file_size(path, error);
  if (!file || error)
    throw Error(ErrorCode::kNotFound, fmt::format("Cannot read the key basis {}.", path.string()));
  std::array<char, kMagic.size()> magic{};
  std::array<std::uint32_t, 3> shape{};
  if (!read(file, magic.data(), magic.size()) ||
      std::string_view(magic.data(), magic.size()) != kMagic ||
      !read(file, shape.data(), sizeof(shape)))
    corrupt(path, "is not a key basis");
  const auto [layers, heads, head_dim] = shape;
  if (layers < 1 || layers > kMostLayers || heads < 1 || heads > kMostHeads || head_dim < 1 ||
      head_dim > kMostKeyElements)
    corrupt(path, "describes a shape that no model has");
  // At most 1e5 x 1e5 heads: fits; the rest is compared without multiplying it
  // out.
  const std::uintmax_t rows = std::uintmax_t{layers} * heads;
  const std::uintmax_t row_bytes = std::uintmax_t{head_dim} * (head_dim + 2) * sizeof(float);
  const std::uintmax_t header = kMagic.size() + sizeof(shape);
  if (file_bytes < header || (file_bytes - header) % row_bytes != 0 ||
      (file_bytes - header) / row_bytes != rows)
    corrupt(path, "has not the length that its shape asks for");

  KeyBasis basis;
  basis.num_layers = static_cast<std::int32_t>(layers);
  basis.num_kv_heads = static_cast<std::int32_t>(heads);
  basis.head_dim = static_cast<std::int32_t>(head_dim);
  basis.means.resize(rows * head_dim);
  basis.variances.resize(rows * head_dim);
  basis.vectors.resize(rows * head_dim * head_dim);
  for (std::vector<float>* part : {&basis.means, &basis.variances, &basis.vectors}) {
    if (!read(file, part->data(), part->size() * sizeof(float))) corrupt(path, "ends early");
    if (!std::ranges::all_of(*part, [](float x) { return std::isfinite(x); }))
      corrupt(path, "holds values that are not numbers");
  }
  return basis;
}

void check_key_basis(const KeyBasis& basis, std::int32_t rank, const ModelConfig& config) {
  if (basis.num_layers != config.num_layers || basis.num_kv_heads != config.num_kv_heads ||
      basis.head_dim != config.head_dim)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("The key basis is for {} layers of {} KV heads of {} elements, but "
                            "the "
                            "model has {} of {} of {}; make one for this model with sluice "
                            "calibrate-keys.",
                            basis.num_layers, basis.num_kv_heads, basis.head_dim, config.num_layers,
                            config.num_kv_heads, config.head_dim));
  if (rank < 1 || rank > config.head_dim)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("The rank of keys must lie between 1 and the "
                            "head's {} elements, not "
                            "{}.",
                            config.head_dim, rank));
}

}  // namespace sluice
