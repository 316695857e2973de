// prepare_engine(): from a path and settings to everything an Engine needs, with nothing taken.
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>

#include "actors/engine.hpp"
#include "engine/backend/cpu_backend.hpp"

namespace sluice {

namespace {

std::size_t weights_bytes(const ModelSource& source) {
  std::size_t bytes = 0;
  for (const TensorView& tensor : source.tensors()) bytes += tensor.data.size();
  return bytes;
}

/// Loudly, where the program has a log.
void warn(const std::string& warning) {
  if (warning.empty()) return;
  if (const auto logger = spdlog::get("sluice")) logger->warn(warning);
}

}  // namespace

PreparedEngine prepare_engine(const EngineConfig& config) {
  PreparedEngine prepared;
  prepared.config = config;
  prepared.source = open_model(config.model);
  prepared.model_config = read_model_config(*prepared.source);
  prepared.tokenizer = make_tokenizer(*prepared.source, config.tokenizer);
  warn(prepared.tokenizer->warning());
  prepared.chat_template = make_chat_template(*prepared.source, *prepared.tokenizer);
  prepared.low_confidence = low_confidence_defaults(*prepared.source);
  prepared.plan = make_plan(prepared.model_config, weights_bytes(*prepared.source), config.plan);
  prepared.model_config.context_in_use = prepared.plan.context;

  CpuBackendOptions options;
  options.threads = config.threads;
  options.kv_type_k = config.plan.kv_type_k;
  options.kv_type_v = config.plan.kv_type_v;
  options.kv_layers = config.plan.kv_layers;
  options.max_batch_tokens = config.plan.max_batch_tokens;
  prepared.make_backend = [source = prepared.source, model = prepared.model_config, options] {
    return make_cpu_backend(source, model, options);
  };
  return prepared;
}

}  // namespace sluice
