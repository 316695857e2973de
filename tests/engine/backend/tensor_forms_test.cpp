// The same weights in other forms: experts apart, projections apart; and tensors that are missing.
#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/model/decoder_weights.hpp"
#include "tests/engine/backend/cpu_rig.hpp"
#include "tests/support/changed_source.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

const std::vector<TokenId> kTokens{5, 200, 17, 17, 300, 2, 99, 41, 8, 150};

std::vector<float> logits_of(const std::shared_ptr<const ModelSource>& source) {
  CpuRig rig(source, f32_kv(), 16);
  return rig.logits(kTokens, 4);
}

/// "blk.1.ffn_up_exps.weight" -> "blk.1.ffn_up.3.weight"
std::string expert_name(const std::string& stacked, std::int64_t expert) {
  const std::size_t at = stacked.find("_exps");
  return stacked.substr(0, at) + "." + std::to_string(expert) + stacked.substr(at + 5);
}

std::shared_ptr<const ModelSource> with_experts_apart(
    const std::shared_ptr<const ModelSource>& source) {
  std::vector<TensorView> tensors;
  for (const TensorView& tensor : source->tensors()) {
    if (tensor.name.find("_exps") == std::string::npos) {
      tensors.push_back(tensor);
      continue;
    }
    for (std::int64_t e = 0; e < tensor.shape.back(); ++e) {
      TensorView one = outer_slices(tensor, expert_name(tensor.name, e), e, e + 1);
      one.shape.pop_back();
      tensors.push_back(std::move(one));
    }
  }
  return std::make_shared<ChangedSource>(source, std::move(tensors));
}

/// attn_qkv becomes attn_q, attn_k and attn_v.
std::shared_ptr<const ModelSource> with_qkv_apart(
    const std::shared_ptr<const ModelSource>& source) {
  const ModelConfig config = read_model_config(*source);
  const std::int64_t q = std::int64_t{config.num_heads} * config.head_dim;
  const std::int64_t kv = config.kv_dim();
  std::vector<TensorView> tensors;
  for (const TensorView& tensor : source->tensors()) {
    const std::size_t at = tensor.name.find("attn_qkv");
    if (at == std::string::npos) {
      tensors.push_back(tensor);
      continue;
    }
    const std::string before = tensor.name.substr(0, at) + "attn_";
    const std::string after = tensor.name.substr(at + 8);
    tensors.push_back(outer_slices(tensor, before + "q" + after, 0, q));
    tensors.push_back(outer_slices(tensor, before + "k" + after, q, q + kv));
    tensors.push_back(outer_slices(tensor, before + "v" + after, q + kv, q + 2 * kv));
  }
  return std::make_shared<ChangedSource>(source, std::move(tensors));
}

std::shared_ptr<const ModelSource> without(const std::shared_ptr<const ModelSource>& source,
                                           const std::string& name) {
  std::vector<TensorView> tensors;
  for (const TensorView& tensor : source->tensors())
    if (tensor.name != name) tensors.push_back(tensor);
  return std::make_shared<ChangedSource>(source, std::move(tensors));
}

/// Tensors that a file of some architecture may well lack.
bool may_be_missing(const std::string& name) {
  return name.ends_with(".bias") || name == "rope_freqs.weight";
}

}  // namespace

TEST_CASE("experts in tensors of their own give the same logits as stacked ones") {
  for (const char* name : {"mixtral", "qwen2moe", "gpt-oss"}) {
    const auto dir = shared_dir(std::string("reference/models/") + name);
    if (!dir) return;
    CAPTURE(name);
    const auto source = open_model(*dir / "model.gguf");
    CHECK(logits_of(with_experts_apart(source)) == logits_of(source));
  }
}

TEST_CASE("projections in tensors of their own give the same logits as fused ones") {
  for (const char* name : {"phi3", "gpt2", "falcon"}) {
    const auto dir = shared_dir(std::string("reference/models/") + name);
    if (!dir) return;
    CAPTURE(name);
    const auto source = open_model(*dir / "model.gguf");
    CHECK(logits_of(with_qkv_apart(source)) == logits_of(source));
  }
}

TEST_CASE("whatever tensor is missing or has another shape the file is refused by name") {
  const auto dir = shared_dir("reference/models");
  if (!dir) return;
  for (const auto& entry : std::filesystem::directory_iterator(*dir)) {
    const auto source = open_model(entry.path() / "model.gguf");
    const ModelConfig config = read_model_config(*source);
    const auto refusal = [&](const std::shared_ptr<const ModelSource>& changed) -> std::string {
      try {
        bind_decoder_weights(changed, config);
      } catch (const Error& error) {
        return error.what();
      }
      return "";
    };
    CHECK(refusal(source).empty());
    for (const TensorView& tensor : source->tensors()) {
      if (tensor.name.starts_with("blk.1") || tensor.name.starts_with("blk.2")) continue;
      CAPTURE(entry.path().filename(), tensor.name);
      const std::string message = refusal(without(source, tensor.name));
      if (!may_be_missing(tensor.name)) CHECK(message.find(source->path().string()) == 0);

      std::vector<TensorView> tensors = source->tensors();
      for (TensorView& other : tensors)
        if (other.name == tensor.name) other.shape.back() += 1;
      CHECK(
          refusal(std::make_shared<ChangedSource>(source, std::move(tensors))).find(tensor.name) !=
          std::string::npos);
    }
  }
}
