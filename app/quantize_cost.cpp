#include "app/quantize_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/backend/cpu_backend.hpp"
#include "engine/base/error.hpp"
#include "engine/evaluate/perplexity.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace sluice::app {
namespace {

constexpr Position kWindow = 512;

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) {
    throw Error(ErrorCode::kNotFound, fmt::format("Can't read the text {}.", path.string()));
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::unique_ptr<TokenModel> load(const std::shared_ptr<const ModelSource>& source, int threads,
                                 Position window) {
  CpuBackendOptions options;
  if (threads > 0) options.threads = threads;
  // The weights are to be compared, so nothing else is rounded.
  options.kv_type_k = options.kv_type_v = DType::kF32;
  return make_token_model(source, read_model_config(*source), options, window);
}

}  // namespace

void print_quantize_cost(const std::shared_ptr<const ModelSource>& before,
                         const std::shared_ptr<const ModelSource>& after,
                         const std::filesystem::path& text_file, int threads) {
  const auto tokenizer = make_tokenizer(*before);
  const std::vector<TokenId> tokens = tokenizer->encode(read_text(text_file), {});
  PerplexityOptions options;
  options.context = std::min(kWindow, read_model_config(*before).context_length);
  const std::vector<TokenId> start = tokenizer->encode("a", {.add_special = true});
  if (tokenizer->bos() >= 0 && start.front() == tokenizer->bos()) {
    options.first_token = tokenizer->bos();
  }
  const auto baseline = load(before, threads, options.context);
  const auto model = load(after, threads, options.context);
  const PerplexityResult result = measure_perplexity(*model, baseline.get(), tokens, options);
  const double old_value = result.baseline_score->perplexity();
  const double new_value = result.score.perplexity();
  fmt::print("perplexity on {}: {:.4f} before, {:.4f} now ({:+.4f}, {:+.2f} %), {} tokens\n",
             text_file.string(), old_value, new_value, new_value - old_value,
             100.0 * (new_value / old_value - 1.0), result.score.count());
  fmt::print("the likeliest token is the same in {:.2f} %, KL divergence {:.6f} nats\n",
             100.0 * result.divergence->top1_agreement(), result.divergence->mean_kl());
}

}  // namespace sluice::app
