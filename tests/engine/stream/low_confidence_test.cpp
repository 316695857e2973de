#include "engine/stream/low_confidence.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "engine/base/error.hpp"

using namespace sluice;

namespace {

class Source final : public ModelSource {
 public:
  Source(std::int64_t parameters, std::map<std::string, MetadataValue, std::less<>> metadata = {})
      : metadata_(std::move(metadata)) {
    tensors_.push_back({"a", {}, {parameters / 1000, 500}, {}});
    tensors_.push_back({"b", {}, {parameters / 1000, 5, 100}, {}});
  }

  const std::filesystem::path& path() const override { return path_; }
  std::string format() const override { return "test"; }
  const std::map<std::string, MetadataValue, std::less<>>& metadata() const override {
    return metadata_;
  }
  const std::vector<TensorView>& tensors() const override { return tensors_; }
  const TensorView* find_tensor(std::string_view) const override { return nullptr; }

 private:
  std::filesystem::path path_ = "dir/model.gguf";
  std::map<std::string, MetadataValue, std::less<>> metadata_;
  std::vector<TensorView> tensors_;
};

}  // namespace

TEST_CASE("confidence defaults depend on the size of the model") {
  CHECK(low_confidence_defaults(Source(100'000)) == LowConfidenceDefaults{0.25F, 5});
  CHECK(low_confidence_defaults(Source(7'240'000'000)) == LowConfidenceDefaults{0.25F, 5});
  CHECK(low_confidence_defaults(Source(13'000'000'000)) == LowConfidenceDefaults{0.15F, 5});
  CHECK(low_confidence_defaults(Source(70'000'000'000)) == LowConfidenceDefaults{0.15F, 5});
}

TEST_CASE("confidence defaults of a model file win over those of its size") {
  const Source both(1000, {{"sluice.stop.min_confidence", 0.4}, {"sluice.stop.patience", 9L}});
  CHECK(low_confidence_defaults(both) == LowConfidenceDefaults{0.4F, 9});
  const Source half(13'000'000'000, {{"sluice.stop.patience", 2L}});
  CHECK(low_confidence_defaults(half) == LowConfidenceDefaults{0.15F, 2});
}

TEST_CASE("confidence defaults of a model file that can not be are refused by name") {
  const std::vector<std::pair<const char*, MetadataValue>> wrong = {
      {"sluice.stop.min_confidence", 0.0},
      {"sluice.stop.min_confidence", 1.5},
      {"sluice.stop.min_confidence", std::numeric_limits<double>::quiet_NaN()},
      {"sluice.stop.min_confidence", std::string("much")},
      {"sluice.stop.patience", 0L},
      {"sluice.stop.patience", 1L << 40},
      {"sluice.stop.patience", true},
  };
  for (const auto& [key, value] : wrong) {
    INFO(key);
    CHECK_THROWS_WITH(low_confidence_defaults(Source(1000, {{key, value}})),
                      Catch::Contains(key) && Catch::Contains("model.gguf"));
  }
}

TEST_CASE("a request gets the missing half of the rule and no rule without either half") {
  const auto completed = [](float min_confidence, std::int32_t patience) {
    StopOptions options{.min_confidence = min_confidence, .patience = patience};
    complete(options, {0.15F, 7});
    return std::pair(options.min_confidence, options.patience);
  };
  CHECK(completed(0.0F, 0) == std::pair(0.0F, 0));
  CHECK(completed(0.5F, 0) == std::pair(0.5F, 7));
  CHECK(completed(0.0F, 3) == std::pair(0.15F, 3));
  CHECK(completed(0.5F, 3) == std::pair(0.5F, 3));
}
