#include "engine/formats/gguf_split.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/model_folder.hpp"

using namespace sluice;
using namespace sluice::test;
using Catch::Matchers::Contains;

namespace {

const std::vector<float> kFour = {1, 2, 3, 4};

/// Part `number`, counted from 0, with one tensor.
GgufWriter part(std::uint16_t number, std::uint16_t count, const std::string& tensor) {
  GgufWriter writer;
  if (number == 0) writer.add_string("general.architecture", "llama");
  writer.add_u16("split.no", number);
  writer.add_u16("split.count", count);
  writer.add_i32("split.tensors.count", count);
  std::vector<float> values = kFour;
  values[0] = static_cast<float>(number);
  writer.add_f32_tensor(tensor, {4}, values);
  return writer;
}

void write_three(const TempFolder& folder) {
  folder.write("m-00001-of-00003.gguf", part(0, 3, "a").bytes());
  folder.write("m-00002-of-00003.gguf", part(1, 3, "b").bytes());
  folder.write("m-00003-of-00003.gguf", part(2, 3, "c").bytes());
}

std::string refusal(const std::filesystem::path& path) {
  try {
    open_model(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("any part of a split model opens all of it") {
  const TempFolder folder;
  write_three(folder);
  for (const char* name :
       {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    CAPTURE(name);
    const auto source = open_model(folder.path() / name);
    CHECK(source->path() == folder.path() / "m-00001-of-00003.gguf");
    CHECK(source->format() == "GGUF v3, 3 files");
    CHECK(source->require_string("general.architecture") == "llama");
    CHECK(source->metadata().size() == 1);
    REQUIRE(source->tensors().size() == 3);
    float first = 0;
    traits(DType::kF32).dequantize(source->find_tensor("c")->data.data(), &first, 1);
    CHECK(first == 2.0F);
  }
}

TEST_CASE("a split model with missing parts says which") {
  const TempFolder folder;
  folder.write("m-00001-of-00003.gguf", part(0, 3, "a").bytes());
  folder.write("m-00003-of-00003.gguf", part(2, 3, "c").bytes());
  CHECK_THAT(refusal(folder.path() / "m-00001-of-00003.gguf"),
             Contains("1 of them is missing: m-00002-of-00003.gguf;"));
  folder.write("renamed.gguf", part(0, 3, "a").bytes());
  CHECK_THAT(refusal(folder.path() / "renamed.gguf"),
             Contains("part 1 of a model in 3 files") && Contains("NAME-00001-of-00003.gguf"));
  folder.write("x-00001-of-65535.gguf", part(0, 65535, "a").bytes());
  CHECK_THAT(refusal(folder.path() / "x-00001-of-65535.gguf"), Contains("65534 of them"));
}

TEST_CASE("parts that do not belong together are refused") {
  const TempFolder folder;
  const std::filesystem::path first = folder.path() / "m-00001-of-00003.gguf";
  write_three(folder);
  folder.write("m-00002-of-00003.gguf", part(2, 3, "b").bytes());
  CHECK_THAT(refusal(first), Contains("part 3 of 3"));
  folder.write("m-00002-of-00003.gguf", part(1, 2, "b").bytes());
  CHECK_THAT(refusal(first), Contains("part 2 of 2"));
  folder.write("m-00002-of-00003.gguf", part(1, 3, "a").bytes());
  CHECK_THAT(refusal(first), Contains("'a' is in two parts"));
  GgufWriter two_tensors = part(1, 3, "b");
  two_tensors.add_f32_tensor("d", {4}, kFour);
  folder.write("m-00002-of-00003.gguf", two_tensors.bytes());
  CHECK_THAT(refusal(first), Contains("split.tensors.count is 3") && Contains("4 tensors"));
  GgufWriter no_number;
  no_number.add_u16("split.count", 3);
  folder.write("m-00002-of-00003.gguf", no_number.bytes());
  CHECK_THAT(refusal(folder.path() / "m-00002-of-00003.gguf"), Contains("split.no"));
}
