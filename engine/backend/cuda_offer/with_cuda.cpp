#include <utility>

#include "engine/backend/cuda/cuda_backend.hpp"
#include "engine/backend/cuda/device_weights.hpp"
#include "engine/backend/cuda/model_support.hpp"
#include "engine/backend/cuda_offer.hpp"
#include "engine/base/error.hpp"
#include "engine/model/decoder_weights.hpp"
#include "kernels/cuda/cuda_device.hpp"

namespace sluice {
namespace {

CudaBackendOptions options_of(const CudaOfferRequest& request, Position positions) {
  CudaBackendOptions options;
  options.kv_types = request.kv_types;
  options.max_batch_tokens = request.max_batch_tokens;
  options.max_positions = positions;
  options.precise = request.precise;
  options.fast_prefill = request.fast_prefill;
  return options;
}

std::unique_ptr<kernels::cuda::DeviceApi> open(std::int32_t index) {
  std::string why_not;
  auto device = kernels::cuda::open_cuda_device(index, why_not);
  if (device == nullptr)
    throw Error(ErrorCode::kInternal, "The CUDA device can't be opened: " + why_not + ".");
  return device;
}

}  // namespace

CudaOffer offer_cuda(std::shared_ptr<const ModelSource> source, const ModelConfig& config,
                     const CudaOfferRequest& request) {
  CudaOffer offer;
  offer.why_not = why_not_on_cuda(*source, config, request.kv_types, request.precise);
  if (!offer.why_not.empty()) return offer;
  const auto device = kernels::cuda::open_cuda_device(request.device, offer.why_not);
  if (device == nullptr) return offer;
  if (request.fast_prefill && !device->why_no_gemm().empty()) {
    offer.why_not = "--fast-prefill needs cuBLAS, and " + device->why_no_gemm();
    return offer;
  }
  if (const kernels::cuda::DeviceError error = device->free_memory(offer.free_bytes)) {
    offer.why_not = error.sentence();
    return offer;
  }
  offer.device = device->properties().name;
  offer.weights_bytes =
      device_weights_bytes(bind_decoder_weights(source, config), config, request.precise);
  offer.scratch_bytes = [config, request](Position positions) {
    return CudaBackend::estimate_scratch_bytes(config, options_of(request, positions));
  };
  offer.make = [source = std::move(source), request](const ModelConfig& planned) {
    return std::make_unique<CudaBackend>(open(request.device), source, planned,
                                         options_of(request, planned.context_in_use));
  };
  return offer;
}

}  // namespace sluice
