// Stands in for libFuzzer where there is none: feeds a fuzz target the files of a corpus, changed
// copies of them, and made-up bytes. The same inputs in every run.
//
//   stop_fuzz RUNS [FOLDER or FILE ...]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return Bytes(text.begin(), text.end());
}

std::vector<Bytes> read_corpus(const std::filesystem::path& path) {
  std::vector<Bytes> inputs;
  if (!std::filesystem::is_directory(path)) return {read(path)};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) inputs.push_back(read(file));
  return inputs;
}

class Inventor {
 public:
  explicit Inventor(std::vector<Bytes> corpus) : corpus_(std::move(corpus)) {}

  Bytes next() {
    Bytes bytes;
    if (!corpus_.empty() && below(2) == 0) {
      bytes = corpus_[below(corpus_.size())];
    } else {
      alphabet_ = below(3);
      bytes.resize(below(96));
      for (std::uint8_t& byte : bytes) byte = any();
    }
    for (std::size_t changes = below(6); changes > 0; --changes) change(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }

  /// From an alphabet of 5 letters, of ASCII, or of all bytes: matches need repetition.
  std::uint8_t any() {
    static const std::string few = "aab\n\xC3";
    if (alphabet_ == 0) return static_cast<std::uint8_t>(few[below(few.size())]);
    return static_cast<std::uint8_t>(below(alphabet_ == 1 ? 128 : 256));
  }

  void change(Bytes& bytes) {
    const std::size_t at = below(bytes.size() + 1);
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(3)) {
      case 0:
        bytes.insert(place, any());
        break;
      case 1:
        if (at < bytes.size()) bytes.erase(place);
        break;
      default:
        if (at < bytes.size()) bytes[at] = any();
        break;
    }
  }

  std::mt19937_64 random_{20};
  std::size_t alphabet_ = 0;
  std::vector<Bytes> corpus_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s RUNS [FOLDER or FILE ...]\n", argv[0]);
    return 2;
  }
  const long runs = std::strtol(argv[1], nullptr, 10);
  std::vector<Bytes> corpus;
  for (int i = 2; i < argc; ++i) {
    for (Bytes& bytes : read_corpus(argv[i])) corpus.push_back(std::move(bytes));
  }
  for (const Bytes& bytes : corpus) LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  const std::size_t files = corpus.size();
  Inventor inventor(std::move(corpus));
  for (long i = 0; i < runs; ++i) {
    const Bytes bytes = inventor.next();
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%zu files and %ld made-up inputs\n", files, runs);
  return 0;
}
