#include "engine/backend/cuda_offer.hpp"

namespace sluice {

CudaOffer offer_cuda(std::shared_ptr<const ModelSource>, const ModelConfig&,
                     const CudaOfferRequest&) {
  CudaOffer offer;
  offer.why_not = "this build has no CUDA parts";
  return offer;
}

}  // namespace sluice
