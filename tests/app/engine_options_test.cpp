#include "app/engine_options.hpp"

#include <catch2/catch.hpp>

#include "engine/base/error.hpp"

using sluice::Error;
using sluice::app::parse_bytes;

TEST_CASE("sizes are read as people write them") {
  CHECK(parse_bytes("4096", "--memory") == 4096);
  CHECK(parse_bytes("1k", "--memory") == 1024);
  CHECK(parse_bytes("8GiB", "--memory") == std::size_t{8} << 30);
  CHECK(parse_bytes("8 GB", "--memory") == std::size_t{8} << 30);
  CHECK(parse_bytes("1.5g", "--memory") == std::size_t{3} << 29);
  CHECK(parse_bytes("2T", "--memory") == std::size_t{2} << 40);
}

TEST_CASE("what is no size is refused with the option and the text") {
  for (const char* text : {"", "x", "-1", "0", "1q", "nan", "inf", "1e300", "8GiBx", "0.1"}) {
    INFO(text);
    try {
      parse_bytes(text, "--memory");
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == sluice::ErrorCode::kInvalidArgument);
      CHECK(std::string(error.what()).find("--memory") != std::string::npos);
    }
  }
}

TEST_CASE("the bundled model is found from a build folder") {
  CHECK(sluice::app::bundled_model().filename() == "demo-q8_0.gguf");
}

TEST_CASE("the device is the CPU where none is named") {
  sluice::app::EngineOptions options;
  CHECK(options.finish().device == sluice::DeviceChoice::kCpu);
  options.device = "auto";
  CHECK(options.finish().device == sluice::DeviceChoice::kAuto);
  options.device = "cuda";
  CHECK(options.finish().device == sluice::DeviceChoice::kCuda);
  options.device = "cpu";
  CHECK(options.finish().device == sluice::DeviceChoice::kCpu);
}

TEST_CASE("KV types that this version can not store are refused") {
  sluice::app::EngineOptions options;
  options.kv.both = "q5_0";
  CHECK_THROWS_AS(options.finish(), Error);
  options.kv.both = "f32";
  CHECK(options.finish().plan.kv_type_k == sluice::DType::kF32);
}
