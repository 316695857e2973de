#include "engine/formats/safetensors_reader.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <span>
#include <string>

#include "engine/base/error.hpp"
#include "tests/support/model_folder.hpp"

using namespace sluice;
using namespace sluice::test;
using Catch::Matchers::Contains;

namespace {

std::vector<SafeTensor> read(const std::string& bytes) {
  return read_safetensors(std::as_bytes(std::span(bytes)), "w.safetensors");
}

std::string refusal(const std::string& bytes) {
  try {
    read(bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string refusal(const std::string& header, const std::string& data) {
  return refusal(SafetensorsWriter::with_header(header, data));
}

}  // namespace

TEST_CASE("safetensors names types shapes and bytes are read") {
  const std::string bytes = SafetensorsWriter::with_header(
      R"({"__metadata__":{"format":"pt"},)"
      R"("b":{"dtype":"BF16","shape":[2,1],"data_offsets":[12,16]},)"
      R"("a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)"
      R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[3,3]},)"
      R"("scalar":{"dtype":"I64","shape":[],"data_offsets":[16,24]}})",
      "aaaabbbbccccddddeeeeeeee");
  const std::vector<SafeTensor> tensors = read(bytes);
  REQUIRE(tensors.size() == 4);
  CHECK(tensors[0].name == "b");
  CHECK(weight_type(tensors[0]) == DType::kBF16);
  CHECK(tensors[0].shape == std::vector<std::int64_t>{2, 1});
  CHECK(std::to_integer<char>(tensors[0].data.front()) == 'd');
  CHECK(tensors[1].data.size() == 12);
  CHECK(tensors[2].data.empty());
  CHECK_FALSE(weight_type(tensors[3]).has_value());
}

TEST_CASE("broken safetensors headers are refused with the reason") {
  CHECK_THAT(refusal(std::string()), Contains("empty"));
  CHECK_THAT(refusal(std::string(7, '\0')), Contains("ends inside"));
  CHECK_THAT(refusal(std::string(8, '\0')), Contains("0 bytes"));
  CHECK_THAT(refusal(std::string(8, '\xff') + "{}"), Contains("18446744073709551615 bytes"));
  CHECK_THAT(refusal("{\"a\":", ""), Contains("not valid JSON"));
  CHECK_THAT(refusal("[1]", ""), Contains("not an object"));
  CHECK_THAT(refusal(std::string(5000, '['), ""), Contains("not valid JSON"));
}

TEST_CASE("broken descriptions of tensors are refused with the tensor's name") {
  const auto described = [](const std::string& description) {
    return refusal(R"({"bad":)" + description + "}", std::string(8, 'x'));
  };
  CHECK(described(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})").empty());
  CHECK_THAT(described("3"), Contains("'bad'") && Contains("object"));
  CHECK_THAT(described(R"({"shape":[2],"data_offsets":[0,8]})"), Contains("dtype"));
  CHECK_THAT(described(R"({"dtype":"F24","shape":[2],"data_offsets":[0,8]})"), Contains("'F24'"));
  CHECK_THAT(described(R"({"dtype":"F32","data_offsets":[0,8]})"), Contains("shape"));
  CHECK_THAT(described(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
             Contains("not a count"));
  CHECK_THAT(described(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,8]})"),
             Contains("not a count"));
  CHECK_THAT(described(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
             Contains("after its end"));
  CHECK_THAT(described(R"({"dtype":"F32","shape":[2],"data_offsets":[0,16]})"),
             Contains("only 8 bytes"));
  CHECK_THAT(described(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,9]})"),
             Contains("two whole numbers"));
  CHECK_THAT(described(R"({"dtype":"F32","shape":[2],"data_offsets":[0.5,8]})"),
             Contains("two whole numbers"));
  CHECK_THAT(described(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
             Contains("needs 12 bytes"));
  CHECK_THAT(described(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
             Contains("impossible shape"));
}

TEST_CASE("tensors must cover the data without overlap and holes") {
  const auto two = [](int begin, int end, const char* name = "b") {
    return refusal(fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}},)"
                               R"("{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                               name, end - begin, begin, end),
                   std::string(8, 'x'));
  };
  CHECK(two(4, 8).empty());
  CHECK_THAT(two(3, 7), Contains("shares bytes"));
  CHECK_THAT(two(5, 8), Contains("1 bytes before tensor 'b'"));
  CHECK_THAT(two(4, 7), Contains("1 bytes at the end"));
  CHECK_THAT(two(4, 8, "a"), Contains("'a' twice"));
}

TEST_CASE("safetensors with flipped bytes are read or refused but never crash") {
  SafetensorsWriter writer;
  writer.add("a", "F16", {2, 3}, std::string(12, 'a'));
  writer.add("b", "BF16", {4}, std::string(8, 'b'));
  const std::string whole = writer.bytes();
  REQUIRE(refusal(whole).empty());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CHECK_FALSE(refusal(whole.substr(0, length)).empty());
  }
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      for (const SafeTensor& tensor : read(bytes)) {
        std::size_t sum = 0;
        for (const std::byte b : tensor.data) sum += std::to_integer<std::size_t>(b);
        REQUIRE(sum <= 255 * tensor.data.size());
      }
    } catch (const Error&) {
    }
  }
}
