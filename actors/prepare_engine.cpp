// prepare_engine(): from a path and settings to everything an Engine needs, with nothing taken.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "actors/engine.hpp"
#include "engine/backend/cpu_backend.hpp"
#include "engine/backend/cuda_offer.hpp"
#include "engine/backend/weight_packer.hpp"
#include "engine/base/error.hpp"

namespace sluice {

namespace {

/// Loudly, where the program has a log.
void warn(const std::string& warning) {
  if (warning.empty()) return;
  if (const auto logger = spdlog::get("sluice")) logger->warn(warning);
}

/// Plans for the CPU and says how its backend is made.
void plan_cpu(PreparedEngine& prepared, const EngineConfig& config) {
  PlanRequest& request = prepared.config.plan;
  if (request.threads == 0) request.threads = config.threads;
  prepared.plan = make_plan(prepared.model_config,
                            resident_weights_bytes(*prepared.source, config.precise), request);
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
}

/// The same for a CUDA device. Returns why not, one sentence without a full stop, empty when all
/// is well. Throws Error(kDoesNotFit) for a plan that does not fit.
std::string plan_cuda(PreparedEngine& prepared, const EngineConfig& config) {
  const PlanRequest& wanted = config.plan;
  CudaOfferRequest ask;
  ask.kv_types = {wanted.kv_type_k, wanted.kv_type_v, wanted.kv_layers, 0};
  ask.max_batch_tokens = wanted.max_batch_tokens;
  ask.precise = config.precise;
  ask.fast_prefill = config.fast_prefill;
  const CudaOffer offer = offer_cuda(prepared.source, prepared.model_config, ask);
  if (!offer.why_not.empty()) return offer.why_not;
  if (!wanted.swap_file.empty())
    return "swap space of a CUDA device lies in main memory, not in a --swap-file";

  PlanRequest request = prepared.config.plan;
  request.on_device = true;
  request.memory_limit_bytes = wanted.memory_limit_bytes > 0
                                   ? std::min(wanted.memory_limit_bytes, offer.free_bytes)
                                   : offer.free_bytes;
  const Position longest =
      wanted.context > 0 ? wanted.context : prepared.model_config.context_length;
  request.device_scratch_bytes = offer.scratch_bytes(longest);
  prepared.plan = make_plan(prepared.model_config, offer.weights_bytes, request);
  prepared.config.plan = request;
  prepared.model_config.context_in_use = prepared.plan.context;
  prepared.device_note = "computing on " + offer.device;
  prepared.make_backend = [make = offer.make, model = prepared.model_config] {
    return make(model);
  };
  return {};
}

/// Chooses the device. A CUDA device that was asked for by name must do; otherwise the CPU does.
void plan_on_device(PreparedEngine& prepared, const EngineConfig& config) {
  prepared.device_note = "computing on the CPU";
  if (config.device == DeviceChoice::kCpu) return plan_cpu(prepared, config);
  std::string why_not;
  try {
    why_not = plan_cuda(prepared, config);
    if (why_not.empty()) return;
  } catch (const Error& error) {
    if (config.device == DeviceChoice::kCuda || error.code() != ErrorCode::kDoesNotFit) throw;
    why_not = error.what();
  }
  if (config.device == DeviceChoice::kCuda)
    throw Error(ErrorCode::kUnsupported,
                "--device cuda is not possible: " + why_not + ". Use --device auto or cpu.");
  plan_cpu(prepared, config);
  prepared.device_note = "computing on the CPU (" + why_not + ")";
}

}  // namespace

PreparedEngine prepare_engine(const EngineConfig& config) {
  PreparedEngine prepared;
  prepared.config = config;
  prepared.source = open_model(config.model);
  prepared.model_config = with_budget(read_model_config(*prepared.source), config.plan.budget);
  prepared.tokenizer = make_tokenizer(*prepared.source, config.tokenizer);
  warn(prepared.tokenizer->warning());
  prepared.chat_template = make_chat_template(*prepared.source, *prepared.tokenizer);
  prepared.low_confidence = low_confidence_defaults(*prepared.source);
  prepared.config.plan.prefill_chunk = config.scheduler.prefill_chunk;
  plan_on_device(prepared, config);
  return prepared;
}

}  // namespace sluice
