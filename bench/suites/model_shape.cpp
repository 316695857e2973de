#include "bench/suites/model_shape.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <map>

#include "engine/base/error.hpp"

namespace sluice::bench {
namespace {

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("\"{}\" is no model shape: {}; use a preset (qwen2.5-0.5b, llama-3.2-1b, "
                          "tiny) or layers=,hidden=,heads=,kv=,dim=,ffn=,vocab=",
                          text, why));
}

}  // namespace

std::int64_t ModelShape::layer_weights() const {
  const std::int64_t q = std::int64_t{heads} * head_dim;
  const std::int64_t kv = std::int64_t{kv_heads} * head_dim;
  return layers * (hidden * (2 * q + 2 * kv) + std::int64_t{3} * hidden * ffn);
}

std::int64_t ModelShape::parameters() const {
  return layer_weights() + std::int64_t{vocab} * hidden * (tied ? 1 : 2);
}

std::span<const ModelShape> preset_shapes() {
  static const std::array<ModelShape, 3> shapes = {{
      {"qwen2.5-0.5b", 24, 896, 14, 2, 64, 4864, 32000, 8192, true},
      {"llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 32000, 8192, true},
      {"tiny", 2, 256, 4, 2, 64, 512, 1000, 8192, true},
  }};
  return shapes;
}

ModelShape parse_shape(std::string_view text) {
  for (const ModelShape& shape : preset_shapes())
    if (shape.name == text) return shape;
  ModelShape shape;
  shape.name = "random";
  std::int32_t tied = 1;
  const std::map<std::string_view, std::int32_t*> fields = {
      {"layers", &shape.layers}, {"hidden", &shape.hidden}, {"heads", &shape.heads},
      {"kv", &shape.kv_heads},   {"dim", &shape.head_dim},  {"ffn", &shape.ffn},
      {"vocab", &shape.vocab},   {"tied", &tied},           {"context", &shape.context}};
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    const std::size_t equals = item.find('=');
    const auto field = fields.find(item.substr(0, equals));
    if (equals == std::string_view::npos || field == fields.end())
      refuse(text, fmt::format("\"{}\" is unknown", item));
    const std::string_view value = item.substr(equals + 1);
    const auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), *field->second);
    constexpr std::int32_t kLargest = 1 << 20;
    if (error != std::errc{} || end != value.data() + value.size() || *field->second < 0 ||
        *field->second > kLargest)
      refuse(text, fmt::format("\"{}\" is no size up to {}", item, kLargest));
  }
  shape.tied = tied != 0;
  for (const std::int32_t n : {shape.layers, shape.hidden, shape.heads, shape.kv_heads,
                               shape.head_dim, shape.ffn, shape.vocab, shape.context})
    if (n < 1) refuse(text, "a size is missing");
  if (shape.heads % shape.kv_heads != 0) refuse(text, "heads must be a multiple of kv");
  if (shape.vocab < 260) refuse(text, "a vocabulary has at least 260 tokens");
  return shape;
}

}  // namespace sluice::bench
