// The registry of element types, and each type's values against reference data.
#include <simdjson.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/formats/dtype.hpp"
#include "tests/support/shared_data.hpp"

namespace sluice {
namespace {

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<std::byte> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

TEST_CASE("types are found by number and by name in any case") {
  for (const DTypeTraits& row : all_dtypes()) {
    CHECK(dtype_from_gguf(row.gguf_id) == row.type);
    CHECK(dtype_from_name(row.name) == row.type);
    CHECK(traits(row.type).name == row.name);
  }
  CHECK(dtype_from_name("Q8_0") == DType::kQ8_0);
  CHECK_FALSE(dtype_from_name("q8").has_value());
  CHECK_FALSE(dtype_from_name("").has_value());
  CHECK_FALSE(dtype_from_gguf(9999).has_value());
  CHECK(bytes_for(DType::kQ8_0, 4096) == 4352);
  CHECK(bytes_for(DType::kF32, 3) == 12);
  CHECK(bytes_for(DType::kBF16, 0) == 0);
}

TEST_CASE("every half precision value is exact") {
  // Independent of bit tricks: sign * mantissa * 2^exponent in double precision.
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    float value = 0.0F;
    std::byte raw[2];
    std::memcpy(raw, &half, 2);
    traits(DType::kF16).dequantize(raw, &value, 1);
    const int exponent = static_cast<int>(bits >> 10) & 31;
    const double mantissa = static_cast<double>(bits & 1023U);
    const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
    if (exponent == 31) {
      if (mantissa != 0.0) {
        REQUIRE(std::isnan(value));
      } else {
        REQUIRE(value == static_cast<float>(sign) * std::numeric_limits<float>::infinity());
      }
    } else {
      const double wanted = exponent == 0 ? sign * std::ldexp(mantissa, -24)
                                          : sign * std::ldexp(1024.0 + mantissa, exponent - 25);
      REQUIRE(static_cast<double>(value) == wanted);
      REQUIRE(std::signbit(value) == (sign < 0));
    }
  }
}

TEST_CASE("dequantised values equal the reference to the last bit") {
  const auto dir = test::shared_dir("reference/dequant");
  if (!dir) return;
  simdjson::dom::parser parser;
  const simdjson::dom::element index = parser.load((*dir / "index.json").string());
  std::size_t checked = 0;
  for (const simdjson::dom::element entry : index.get_array()) {
    const std::string name(entry["type"].get_string().value());
    const auto type = dtype_from_gguf(static_cast<std::uint32_t>(entry["ggml_type"].get_uint64()));
    if (!type) continue;
    INFO("type " << name);
    const DTypeTraits& row = traits(*type);
    CHECK(row.block_size == entry["block_elements"].get_uint64().value());
    CHECK(row.block_bytes == entry["block_bytes"].get_uint64().value());
    const std::vector<std::byte> data = read_file(*dir / entry["data"].get_string().value());
    const std::vector<std::byte> expected =
        read_file(*dir / entry["expected"].get_string().value());
    const std::size_t n = expected.size() / sizeof(float);
    REQUIRE(data.size() == bytes_for(*type, n));
    std::vector<float> values(n);
    row.dequantize(data.data(), values.data(), n);
    CHECK(std::memcmp(values.data(), expected.data(), expected.size()) == 0);
    ++checked;
  }
  CHECK(checked >= all_dtypes().size() - 2);  // there are no files for f32 and q5_1
}

TEST_CASE("a block of q5_1 by hand") {
  // d = 0.5, m = -3, element i has the value q = i, so its fifth bit is set from 16 on.
  std::vector<std::byte> block;
  const auto put = [&](unsigned value) { block.push_back(static_cast<std::byte>(value)); };
  for (const unsigned byte : {0x00U, 0x38U, 0x00U, 0xC2U}) put(byte);
  for (const unsigned byte : {0x00U, 0x00U, 0xFFU, 0xFFU}) put(byte);
  for (unsigned i = 0; i < 16; ++i) put(i | i << 4);
  REQUIRE(block.size() == bytes_for(DType::kQ5_1, 32));
  std::vector<float> values(32);
  traits(DType::kQ5_1).dequantize(block.data(), values.data(), 32);
  for (std::size_t i = 0; i < 32; ++i) CHECK(values[i] == 0.5F * static_cast<float>(i) - 3.0F);
}

}  // namespace
}  // namespace sluice
