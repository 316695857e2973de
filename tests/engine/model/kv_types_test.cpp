#include "engine/model/kv_types.hpp"

#include <catch2/catch.hpp>

#include "engine/base/error.hpp"
#include "kernels/cpu/kernels.hpp"

using namespace sluice;

TEST_CASE("KV types are read as they are written") {
  CHECK(parse_kv_types("f16", "--x") == std::pair{DType::kF16, DType::kF16});
  CHECK(parse_kv_types("Q8_0/bf16", "--x") == std::pair{DType::kQ8_0, DType::kBF16});
  const KvLayerTypes range = parse_kv_layer_types("2-11=q4_0/f32", "--x");
  CHECK(range.first_layer == 2);
  CHECK(range.last_layer == 11);
  CHECK(range.type_k == DType::kQ4_0);
  CHECK(range.type_v == DType::kF32);
  CHECK(parse_kv_layer_types("7=f16", "--x").last_layer == 7);
}

TEST_CASE("KV types that are none are refused by the name of their option") {
  for (const char* text : {"", "q5_0", "f16/", "/f16", "f16/f16/f16", "f16 ", "q6_k", "int8"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(parse_kv_types(text, "--some-option"), Catch::Contains("--some-option"));
  }
  for (const char* text : {"", "f16", "3", "=f16", "3-=f16", "-3=f16", "5-3=f16", "a-b=f16",
                           "1-2-3=f16", "99999999999=f16", "0-3=", "0-3=q5_0"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(parse_kv_layer_types(text, "--some-option"),
                      Catch::Contains("--some-option"));
  }
}

TEST_CASE("of several types for a layer the last one counts") {
  const KvTypes types{DType::kQ8_0,
                      DType::kF16,
                      {{0, 3, DType::kF16, DType::kF16}, {2, 2, DType::kF32, DType::kQ4_0}}};
  CHECK(types.of_layer(1) == std::pair{DType::kF16, DType::kF16});
  CHECK(types.of_layer(2) == std::pair{DType::kF32, DType::kQ4_0});
  CHECK(types.of_layer(4) == std::pair{DType::kQ8_0, DType::kF16});
  CHECK(describe(types) == "q8_0/f16 (layers 0-3 f16, layer 2 f32/q4_0)");
  CHECK(describe({}) == "f16");
}

TEST_CASE("KV rows have the same bytes in the plan and in the kernels") {
  using kernels::KvEncoding;
  for (const std::int32_t elements : {1, 8, 32, 33, 64, 80, 96, 128, 256})
    for (const auto& [type, encoding] :
         {std::pair{DType::kF32, KvEncoding::kF32}, std::pair{DType::kF16, KvEncoding::kF16},
          std::pair{DType::kBF16, KvEncoding::kBF16}, std::pair{DType::kQ8_0, KvEncoding::kQ8_0},
          std::pair{DType::kQ4_0, KvEncoding::kQ4_0}})
      CHECK(kv_row_bytes(type, elements) ==
            kernels::kv_row_bytes(encoding, static_cast<std::size_t>(elements)));
}

TEST_CASE("8 bit KV takes little more than half and V alone in 8 bits three quarters") {
  ModelConfig config;
  config.num_layers = 4;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  const auto bytes = [&](DType k, DType v) {
    return static_cast<double>(kv_layer_bytes({k, v, {}}, config, 0));
  };
  const double f16 = bytes(DType::kF16, DType::kF16);
  CHECK(f16 == 2 * 8 * 128 * 2);
  CHECK(bytes(DType::kQ8_0, DType::kQ8_0) / f16 < 0.535);
  CHECK(bytes(DType::kF16, DType::kQ8_0) / f16 < 0.77);
  CHECK(bytes(DType::kQ4_0, DType::kQ4_0) / f16 < 0.29);
}

TEST_CASE("types for layers that a model has not are refused") {
  ModelConfig config;
  config.num_layers = 4;
  CHECK_NOTHROW(
      check_kv_types({DType::kF16, DType::kF16, {{0, 3, DType::kF32, DType::kF32}}}, config));
  CHECK_THROWS_AS(
      check_kv_types({DType::kF16, DType::kF16, {{0, 4, DType::kF32, DType::kF32}}}, config),
      Error);
  CHECK_THROWS_AS(check_kv_types({DType::kF16, DType::kQ6_K, {}}, config), Error);
}
