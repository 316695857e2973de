// Fuzz target: arbitrary bytes as config.json and model.safetensors of a Hugging Face folder,
// parted by the first zero byte. The folder opens or is refused with an Error; every tensor of one
// that opens can be decoded.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/formats/model_source.hpp"
#include "tests/support/model_folder.hpp"

namespace {

void use(const sluice::ModelSource& source) {
  std::vector<float> row;
  for (const sluice::TensorView& tensor : source.tensors()) {
    const auto elements = static_cast<std::size_t>(tensor.elements());
    if (tensor.data.size() != sluice::bytes_for(tensor.type, elements)) std::abort();
    row.resize(elements);
    sluice::traits(tensor.type).dequantize(tensor.data.data(), row.data(), elements);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const sluice::test::TempFolder folder;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t parting = std::min(input.find('\0'), input.size());
  // Writing over a file may wait for the disk; a new one does not.
  std::filesystem::remove(folder.path() / "config.json");
  std::filesystem::remove(folder.path() / "model.safetensors");
  folder.write("config.json", input.substr(0, parting));
  folder.write("model.safetensors", input.substr(std::min(parting + 1, input.size())));
  try {
    use(*sluice::open_model(folder.path()));
  } catch (const sluice::Error& error) {
    const std::string message = error.what();
    if (message.empty() || message.find('\n') != std::string::npos) std::abort();
  }
  return 0;
}
