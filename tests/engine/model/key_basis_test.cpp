#include "engine/model/key_basis.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>

#include "engine/base/error.hpp"

using namespace sluice;

namespace {

namespace fs = std::filesystem;

KeyBasis small_basis() {
  KeyBasis basis{2, 3, 4, {}, {}, {}};
  for (int i = 0; i < 24; ++i) basis.means.push_back(static_cast<float>(i));
  for (int i = 0; i < 24; ++i) basis.variances.push_back(static_cast<float>(4 - i % 4));
  for (int i = 0; i < 96; ++i) basis.vectors.push_back(static_cast<float>(i) * 0.5F);
  return basis;
}

struct TemporaryFile {
  fs::path path = fs::temp_directory_path() / ("sluice-keys-" + std::to_string(getpid()));
  ~TemporaryFile() { fs::remove(path); }

  std::string read() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }
};

ErrorCode code_of(const fs::path& path) {
  try {
    read_key_basis(path);
  } catch (const Error& e) {
    return e.code();
  }
  return ErrorCode::kInternal;
}

}  // namespace

TEST_CASE("a key basis comes back from its file") {
  const TemporaryFile file;
  write_key_basis(small_basis(), file.path);
  const KeyBasis read = read_key_basis(file.path);
  CHECK(read.num_layers == 2);
  CHECK(read.num_kv_heads == 3);
  CHECK(read.head_dim == 4);
  CHECK(read.means == small_basis().means);
  CHECK(read.variances == small_basis().variances);
  CHECK(read.vectors == small_basis().vectors);
  CHECK(read.share_of(4) == 1.0);
  CHECK(read.share_of(2) == Approx(0.7));
}

TEST_CASE("damaged key bases are refused") {
  const TemporaryFile file;
  CHECK(code_of(file.path) == ErrorCode::kNotFound);
  write_key_basis(small_basis(), file.path);
  const std::string good = file.read();
  for (std::size_t n = 0; n < good.size(); n += n < 24 ? 1 : 37) {
    file.write(good.substr(0, n));
    CHECK(code_of(file.path) == ErrorCode::kCorrupt);
  }
  file.write(good + "x");
  CHECK(code_of(file.path) == ErrorCode::kCorrupt);
  for (const std::size_t at : {0U, 8U, 11U, 12U, 15U, 16U, 19U}) {  // magic and shape
    std::string bad = good;
    bad[at] = '\xF0';
    file.write(bad);
    CHECK(code_of(file.path) == ErrorCode::kCorrupt);
  }
  std::string nan = good;
  nan.replace(60, 4, "\xFF\xFF\xFF\xFF");
  file.write(nan);
  CHECK(code_of(file.path) == ErrorCode::kCorrupt);
}

TEST_CASE("a key basis has to fit the model and the rank the head") {
  ModelConfig config;
  config.num_layers = 2;
  config.num_kv_heads = 3;
  config.head_dim = 4;
  CHECK_NOTHROW(check_key_basis(small_basis(), 4, config));
  CHECK_THROWS_AS(check_key_basis(small_basis(), 5, config), Error);
  CHECK_THROWS_AS(check_key_basis(small_basis(), 0, config), Error);
  config.num_layers = 3;
  CHECK_THROWS_AS(check_key_basis(small_basis(), 4, config), Error);
}
