// Fuzz target: arbitrary bytes as a GGUF file. Whatever they are, the file opens or is refused with
// an Error; every tensor of one that opens lies inside it and can be decoded.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/formats/model_source.hpp"

namespace {

/// A file in memory with a path, so that the mapping is fuzzed too.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : fd_(::memfd_create("fuzz", 0)) {
    if (fd_ < 0 || ::write(fd_, data, size) != static_cast<::ssize_t>(size)) std::abort();
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

void use(const sluice::ModelSource& source) {
  std::vector<float> row;
  for (const sluice::TensorView& tensor : source.tensors()) {
    const auto elements = static_cast<std::size_t>(tensor.elements());
    if (tensor.data.size() != sluice::bytes_for(tensor.type, elements)) std::abort();
    if (source.find_tensor(tensor.name) == nullptr) std::abort();
    row.resize(elements);
    sluice::traits(tensor.type).dequantize(tensor.data.data(), row.data(), elements);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  try {
    use(*sluice::open_model(file.path()));
  } catch (const sluice::Error& error) {
    const std::string message = error.what();
    if (message.empty() || message.find('\n') != std::string::npos) std::abort();
  }
  return 0;
}
