// Reading GGUF files, good ones and bad ones, written here byte by byte.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/formats/model_source.hpp"
#include "tests/support/gguf_writer.hpp"

namespace sluice {
namespace {

using Catch::Contains;
using test::GgufWriter;
using test::TempFile;

std::shared_ptr<const ModelSource> open(const GgufWriter& writer) {
  const TempFile file = writer.write_temp();
  return open_model(file.path());  // the mapping outlives the name
}

/// The message of the Error that opening `bytes` ends with; "" when it opens.
std::string refusal(const std::string& bytes) {
  const TempFile file(bytes);
  try {
    open_model(file.path());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
std::string refusal(const GgufWriter& writer) {
  return refusal(writer.bytes());
}

const std::vector<float> kFour = {1.0F, -2.5F, 0.0F, 1e-30F};

TEST_CASE("metadata of every type is read back") {
  GgufWriter writer;
  writer.add_u8("u8", 255);
  writer.add_i8("i8", -128);
  writer.add_u16("u16", 65535);
  writer.add_i16("i16", -32768);
  writer.add_u32("u32", 4294967295U);
  writer.add_i32("i32", -2147483647);
  writer.add_u64("u64", 1ULL << 62);
  writer.add_u64("u64 wide", ~0ULL);
  writer.add_i64("i64", -5);
  writer.add_f32("f32", 0.5F);
  writer.add_f64("f64", 1e300);
  writer.add_bool("yes", true);
  writer.add_bool("no", false);
  writer.add_string("text", std::string_view("a\0b", 3));
  writer.add_strings("texts", {"x", "", "yz"});
  writer.add_i32s("ints", {3, -4});
  writer.add_f32s("floats", {0.25F});
  writer.add_bools("flags", {true, false});
  writer.add_strings("none", {});
  const auto source = open(writer);
  CHECK(source->format() == "GGUF v3");
  CHECK(source->get_int("u8") == 255);
  CHECK(source->get_int("i8") == -128);
  CHECK(source->get_int("u16") == 65535);
  CHECK(source->get_int("i16") == -32768);
  CHECK(source->get_int("u32") == 4294967295);
  CHECK(source->get_int("i32") == -2147483647);
  CHECK(source->get_int("u64") == std::int64_t{1} << 62);
  CHECK(source->get_int("i64") == -5);
  CHECK(std::get<std::uint64_t>(source->metadata().find("u64 wide")->second) == ~0ULL);
  CHECK(source->get_float("f32") == 0.5);
  CHECK(source->get_float("f64") == 1e300);
  CHECK(source->get_float("i8") == -128.0);
  CHECK(source->get_bool("yes") == true);
  CHECK(source->get_bool("no") == false);
  CHECK(*source->get_string("text") == std::string("a\0b", 3));
  CHECK(*source->get_strings("texts") == std::vector<std::string>{"x", "", "yz"});
  CHECK(*source->get_ints("ints") == std::vector<std::int64_t>{3, -4});
  CHECK(*source->get_floats("floats") == std::vector<double>{0.25});
  CHECK(std::get<std::vector<bool>>(source->metadata().find("flags")->second) ==
        std::vector<bool>{true, false});
  CHECK(source->get_strings("none")->empty());
}

TEST_CASE("typed access names what is absent or of another type") {
  GgufWriter writer;
  writer.add_string("text", "x");
  writer.add_u64("wide", ~0ULL);
  const auto source = open(writer);
  CHECK_FALSE(source->get_int("absent").has_value());
  CHECK(source->get_string("absent") == nullptr);
  CHECK_THROWS_WITH(source->require_int("absent"), Contains("absent") && Contains("missing"));
  CHECK_THROWS_WITH(source->get_int("text"), Contains("text") && Contains("an integer"));
  CHECK_THROWS_WITH(source->get_int("wide"), Contains("63 bits"));
  CHECK_THROWS_WITH(source->get_float("text"), Contains("a number"));
  CHECK_THROWS_WITH(source->get_bool("text"), Contains("a truth value"));
}

TEST_CASE("tensors are views of the file") {
  GgufWriter writer;
  writer.add_f32_tensor("a", {2, 2}, kFour);
  writer.add_tensor("b", {32}, 8, std::string(34, 'q'));
  writer.add_f32_tensor("c", {4}, kFour);
  const auto source = open(writer);
  REQUIRE(source->tensors().size() == 3);
  const TensorView* a = source->find_tensor("a");
  REQUIRE(a != nullptr);
  CHECK(a->shape == std::vector<std::int64_t>{2, 2});
  CHECK(a->elements() == 4);
  REQUIRE(a->data.size() == 16);
  CHECK(std::memcmp(a->data.data(), kFour.data(), 16) == 0);
  const TensorView* b = source->find_tensor("b");
  REQUIRE(b != nullptr);
  CHECK(b->type == DType::kQ8_0);
  CHECK(b->data.size() == 34);
  CHECK(std::to_integer<char>(b->data.back()) == 'q');
  CHECK(source->find_tensor("absent") == nullptr);
}

TEST_CASE("version 2 and other alignments and trailing bytes are accepted") {
  GgufWriter writer;
  writer.version = 2;
  writer.alignment = 64;
  writer.add_u32("general.alignment", 64);
  writer.add_f32_tensor("a", {4}, kFour);
  writer.add_f32_tensor("b", {4}, kFour);
  const TempFile file(writer.bytes() + std::string(1000, 'x'));
  const auto source = open_model(file.path());
  CHECK(source->format() == "GGUF v2");
  CHECK(std::memcmp(source->find_tensor("b")->data.data(), kFour.data(), 16) == 0);
}

TEST_CASE("things that are no GGUF file are named") {
  CHECK_THAT(refusal(""), Contains("empty"));
  CHECK_THAT(refusal("GG"), Contains("ends inside"));
  CHECK_THAT(refusal("hello there"), Contains("not a GGUF file"));
  CHECK_THAT(refusal(std::string("tjgg\3\0\0\0", 8)), Contains("GGJT"));
  CHECK_THAT(refusal("PK\x03\x04...."), Contains("ZIP"));
  GgufWriter writer;
  writer.version = 1;
  CHECK_THAT(refusal(writer), Contains("version 1"));
  writer.version = 0x03000000;
  CHECK_THAT(refusal(writer), Contains("big-endian"));
  writer.version = 99;
  CHECK_THAT(refusal(writer), Contains("version 99"));
}

TEST_CASE("paths that are no file get a sentence and a code") {
  try {
    open_model("/no/such/file.gguf");
    FAIL("opened");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kNotFound);
    CHECK_THAT(error.what(), Contains("/no/such/file.gguf"));
  }
  CHECK_THROWS_WITH(open_model(std::filesystem::temp_directory_path()), Contains("folder"));
  CHECK_THROWS_WITH(open_model("/dev/null"), Contains("not a regular file"));
}

TEST_CASE("counts and lengths that the file can not hold are refused") {
  GgufWriter tensors;
  tensors.extra_tensor_count = std::numeric_limits<std::int64_t>::max();
  CHECK_THAT(refusal(tensors), Contains("tensors"));
  GgufWriter entries;
  entries.extra_entry_count = std::numeric_limits<std::int64_t>::max();
  CHECK_THAT(refusal(entries), Contains("metadata entries"));

  std::string huge_string;
  GgufWriter::put(huge_string, std::uint64_t{1} << 62);
  GgufWriter text;
  text.add_raw("key", 8, huge_string);
  CHECK_THAT(refusal(text), Contains("'key'"));

  for (const std::uint32_t item_type : {0U, 4U, 7U, 8U, 10U, 12U}) {
    for (const std::uint64_t count : {std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
      std::string array;
      GgufWriter::put(array, item_type);
      GgufWriter::put(array, count);
      GgufWriter writer;
      writer.add_raw("key", 9, array);
      CHECK_THAT(refusal(writer), Contains("'key'"));
    }
  }
}

TEST_CASE("faulty metadata entries are refused") {
  GgufWriter unknown;
  unknown.add_raw("key", 77, "xxxxxxxx");
  CHECK_THAT(refusal(unknown), Contains("unknown type number 77"));
  GgufWriter nested;
  std::string array;
  GgufWriter::put(array, std::uint32_t{9});
  GgufWriter::put(array, std::uint64_t{1});
  nested.add_raw("key", 9, array);
  CHECK_THAT(refusal(nested), Contains("array of arrays"));
  GgufWriter twice;
  twice.add_u32("key", 1);
  twice.add_u32("key", 1);
  CHECK_THAT(refusal(twice), Contains("comes twice"));
  GgufWriter not_split;
  not_split.add_u16("split.count", 1);
  CHECK(refusal(not_split).empty());
}

TEST_CASE("faulty alignments are refused") {
  for (const std::uint32_t alignment : {0U, 1U, 3U, 4U, 48U}) {
    GgufWriter writer;
    writer.add_u32("general.alignment", alignment);
    CHECK_THAT(refusal(writer), Contains("general.alignment"));
  }
  GgufWriter text;
  text.add_string("general.alignment", "32");
  CHECK_THAT(refusal(text), Contains("general.alignment"));
}

TEST_CASE("faulty tensor descriptions are refused and name the tensor") {
  const auto described = [](const std::vector<std::uint64_t>& shape, std::uint32_t type,
                            std::uint64_t offset) {
    GgufWriter writer;
    writer.add_f32_tensor("good", {4}, kFour);
    writer.add_description("bad", shape, type, offset);
    return refusal(writer);
  };
  CHECK_THAT(described({}, 0, 0), Contains("'bad'") && Contains("0 dimensions"));
  CHECK_THAT(described({1, 1, 1, 1, 1}, 0, 0), Contains("5 dimensions"));
  CHECK_THAT(described({0}, 0, 0), Contains("dimension of 0"));
  CHECK_THAT(described({~std::uint64_t{0} - 15}, 0, 0), Contains("dimension of -16"));
  CHECK_THAT(described({std::uint64_t{1} << 40, std::uint64_t{1} << 40}, 0, 0),
             Contains("impossible shape"));
  CHECK_THAT(described({(std::uint64_t{1} << 63) - 1}, 0, 0), Contains("impossible shape"));
  CHECK_THAT(described({4}, 9999, 0), Contains("9999") && Contains("q8_0"));
  CHECK_THAT(described({33}, 8, 0), Contains("whole q8_0 blocks"));
  CHECK_THAT(described({4}, 0, 8), Contains("alignment"));
  CHECK_THAT(described({4}, 0, 32), Contains("needs 16 bytes"));
  CHECK_THAT(described({4}, 0, std::uint64_t{1} << 63), Contains("needs 16 bytes"));
  CHECK_THAT(described({4}, 0, 0), Contains("shares bytes") && Contains("'good'"));

  GgufWriter twice;
  twice.add_f32_tensor("same", {4}, kFour);
  twice.add_f32_tensor("same", {4}, kFour);
  CHECK_THAT(refusal(twice), Contains("'same' comes twice"));
}

TEST_CASE("a file cut anywhere is refused") {
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_strings("tokens", {"a", "b"});
  writer.add_f32_tensor("a", {4}, kFour);
  writer.add_f32_tensor("b", {4}, kFour);
  const std::string whole = writer.bytes();
  REQUIRE(refusal(whole).empty());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(refusal(whole.substr(0, length)).empty());
  }
}

TEST_CASE("a file with flipped bytes opens or is refused but never crashes") {
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_u32("general.alignment", 32);
  writer.add_strings("tokens", {"a", "b"});
  writer.add_i32s("types", {1, 2, 3});
  writer.add_f32_tensor("a", {4}, kFour);
  writer.add_tensor("b", {32, 2}, 8, std::string(68, 'q'));
  const std::string whole = writer.bytes();
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = whole;
    for (int flips = 0; flips < 1 + round % 3; ++flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const TempFile file(bytes);
    try {
      const auto source = open_model(file.path());
      for (const TensorView& tensor : source->tensors()) {
        REQUIRE(tensor.data.size() ==
                bytes_for(tensor.type, static_cast<std::size_t>(tensor.elements())));
        std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
        traits(tensor.type).dequantize(tensor.data.data(), values.data(), values.size());
      }
    } catch (const Error&) {
    }
  }
}

TEST_CASE("messages can not carry control characters from the file") {
  GgufWriter writer;
  writer.add_raw("evil\x1b[31m\n", 77, "xxxxxxxx");
  const std::string message = refusal(writer);
  CHECK_THAT(message, Contains("\\x1b"));
  CHECK(message.find('\x1b') == std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
}

}  // namespace
}  // namespace sluice
