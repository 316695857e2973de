// prepare_engine(): from a path and settings to everything an Engine needs, with nothing taken.
#include <memory>
#include <utility>

#include "actors/engine.hpp"
#include "engine/backend/cpu_backend.hpp"
#include "engine/backend/weight_packer.hpp"

namespace sluice {

PreparedEngine prepare_engine(const EngineConfig& config) {
  PreparedEngine prepared;
  prepared.config = config;
  prepared.source = open_model(config.model);
  prepared.model_config = read_model_config(*prepared.source);
  prepared.tokenizer = make_tokenizer(*prepared.source);
  prepared.chat_template = make_chat_template(*prepared.source, *prepared.tokenizer);
  prepared.low_confidence = low_confidence_defaults(*prepared.source);
  prepared.plan = make_plan(prepared.model_config, resident_weights_bytes(*prepared.source, config.precise), config.plan);
  prepared.model_config.context_in_use = prepared.plan.context;

  CpuBackendOptions options;
  options.threads = config.threads;
  options.precise = config.precise;
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
