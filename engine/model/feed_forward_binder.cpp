#include "engine/model/feed_forward_binder.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace sluice {
namespace {

bool needs_biases(const ModelConfig& config) {
  return config.options.required_biases == RequiredBiases::kAll;
}

/// `suffix` is empty or "_shexp", that of the shared expert.
FeedForward bind_dense(TensorBinder& binder, const std::string& prefix, const std::string& suffix,
                       const ModelConfig& config, std::int64_t ffn) {
  const std::int64_t hidden = config.hidden_size;
  const bool needs_bias = needs_biases(config);
  FeedForward block;
  if (config.options.fused_gate_up) {
    const Projection both =
        bind_projection(binder, prefix + "ffn_up" + suffix, hidden, 2 * ffn, needs_bias);
    block.gate = slice_outputs(both, 0, static_cast<std::size_t>(ffn));
    block.up = slice_outputs(both, static_cast<std::size_t>(ffn), static_cast<std::size_t>(ffn));
  } else {
    if (config.options.gated)
      block.gate = bind_projection(binder, prefix + "ffn_gate" + suffix, hidden, ffn, needs_bias);
    block.up = bind_projection(binder, prefix + "ffn_up" + suffix, hidden, ffn, needs_bias);
  }
  block.down = bind_projection(binder, prefix + "ffn_down" + suffix, ffn, hidden, needs_bias);
  return block;
}

/// One kind of matrix of all experts: stacked in one tensor, or a tensor for each.
std::vector<Projection> bind_experts(TensorBinder& binder, const std::string& prefix,
                                     const std::string& kind, std::int64_t in, std::int64_t out,
                                     const ModelConfig& config) {
  const std::int64_t count = config.experts.count;
  std::vector<Projection> experts;
  if (binder.has(fmt::format("{}{}.0.weight", prefix, kind))) {
    for (std::int64_t e = 0; e < count; ++e)
      experts.push_back(bind_projection(binder, fmt::format("{}{}.{}", prefix, kind, e), in, out,
                                        needs_biases(config)));
    return experts;
  }
  const std::string name = prefix + kind + "_exps";
  for (const kernels::WeightMatrix& matrix :
       binder.stacked_matrices(name + ".weight", in, out, count))
    experts.push_back({matrix, {}});
  if (!needs_biases(config) && !binder.has(name + ".bias")) return experts;
  const std::vector<float> biases = binder.table(name + ".bias", out, count);
  for (std::int64_t e = 0; e < count; ++e)
    experts[static_cast<std::size_t>(e)].bias.assign(biases.begin() + e * out,
                                                     biases.begin() + (e + 1) * out);
  return experts;
}

MixtureOfExperts bind_moe(TensorBinder& binder, const std::string& prefix,
                          const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t ffn = config.experts.ffn_size;
  MixtureOfExperts moe;
  moe.router = bind_projection(binder, prefix + "ffn_gate_inp", hidden, config.experts.count,
                               needs_biases(config));
  std::vector<Projection> gates = bind_experts(binder, prefix, "ffn_gate", hidden, ffn, config);
  std::vector<Projection> ups = bind_experts(binder, prefix, "ffn_up", hidden, ffn, config);
  std::vector<Projection> downs = bind_experts(binder, prefix, "ffn_down", ffn, hidden, config);
  for (std::size_t e = 0; e < gates.size(); ++e)
    moe.experts.push_back({std::move(gates[e]), std::move(ups[e]), std::move(downs[e])});
  if (config.experts.shared_ffn_size > 0) {
    moe.shared = bind_dense(binder, prefix, "_shexp", config, config.experts.shared_ffn_size);
    moe.shared_gate.weight = binder.matrix(prefix + "ffn_gate_inp_shexp.weight", hidden, 1);
  }
  return moe;
}

}  // namespace

Projection bind_projection(TensorBinder& binder, const std::string& name, std::int64_t in,
                           std::int64_t out, bool needs_bias) {
  const std::string bias = name + ".bias";
  return {binder.matrix(name + ".weight", in, out),
          needs_bias ? binder.vector(bias, out) : binder.optional_vector(bias, out)};
}

Projection slice_outputs(const Projection& whole, std::size_t first, std::size_t count) {
  Projection part = whole;
  part.weight.data += first * whole.weight.row_bytes;
  part.weight.rows = count;
  if (!whole.bias.empty()) {
    const auto begin = whole.bias.begin() + static_cast<std::ptrdiff_t>(first);
    part.bias.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  }
  return part;
}

void bind_feed_forward(TensorBinder& binder, const std::string& prefix, const ModelConfig& config,
                       LayerWeights& layer) {
  // Some models have experts in some of their layers only.
  if (config.experts.count > 0 && binder.has(prefix + "ffn_gate_inp.weight"))
    layer.moe = bind_moe(binder, prefix, config);
  else
    layer.ffn = bind_dense(binder, prefix, "", config, config.ffn_size);
}

}  // namespace sluice
