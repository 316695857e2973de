#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <string>

#include "bench/suites/bench_engine.hpp"
#include "bench/suites/random_model.hpp"
#include "bench/suites/random_weights.hpp"
#include "engine/base/error.hpp"

using namespace sluice;
using namespace sluice::bench;

namespace {

struct TemporaryModel {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("sluice-bench-" + std::to_string(::getpid()) + ".gguf");
  ~TemporaryModel() { std::filesystem::remove(path); }
};

}  // namespace

TEST_CASE("random weights of every type have the size that was asked for") {
  for (const DTypeTraits& type : all_dtypes()) {
    CAPTURE(type.name);
    Random random(7);
    const std::size_t n = 256 * 64;
    const std::vector<std::byte> bytes = random_weights(type.type, n, 0.05F, random);
    REQUIRE(bytes.size() == bytes_for(type.type, n));
    std::vector<float> values(n);
    type.dequantize(bytes.data(), values.data(), n);
    double sum = 0;
    double squares = 0;
    for (const float v : values) {
      sum += static_cast<double>(v);
      squares += static_cast<double>(v) * static_cast<double>(v);
    }
    const double deviation = std::sqrt(squares / static_cast<double>(n));
    CHECK(deviation > 0.03);
    CHECK(deviation < 0.08);
    CHECK(std::abs(sum / static_cast<double>(n)) < 0.02);
  }
}

TEST_CASE("a random model can be loaded and stepped") {
  const ModelShape shape =
      parse_shape("layers=2,hidden=256,heads=4,kv=2,dim=64,ffn=512,vocab=300,context=128");
  for (const char* types : {"q8_0", "q4_k_m", "bf16", "f16", "q4_0"}) {
    CAPTURE(types);
    const TemporaryModel model;
    write_random_model(shape, parse_types(types), model.path);
    BenchSettings settings;
    settings.model = model.path;
    settings.backend.threads = 2;
    BenchEngine engine(settings, 2, 64);
    CHECK(engine.prefill(0, 20) > 0);
    CHECK(engine.decode(2) > 0);
    CHECK(engine.cost(1, 1, 0).operations == 2.0 * static_cast<double>(shape.parameters()));
  }
}

TEST_CASE("shapes and types that make no sense are refused") {
  CHECK_THROWS_AS(parse_shape("layers=2"), Error);
  CHECK_THROWS_AS(parse_shape("layers=2,hidden=x"), Error);
  CHECK_THROWS_AS(parse_shape("nobody"), Error);
  CHECK_THROWS_AS(parse_shape("layers=2,hidden=256,heads=3,kv=2,dim=64,ffn=512,vocab=300"), Error);
  CHECK_THROWS_AS(parse_types("q9"), Error);
  const TemporaryModel model;
  CHECK_THROWS_AS(
      write_random_model(parse_shape("layers=1,hidden=96,heads=2,kv=2,dim=32,ffn=96,vocab=300"),
                         parse_types("q4_k"), model.path),
      Error);
}
