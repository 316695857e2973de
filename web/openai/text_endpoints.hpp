// /tokenize and /detokenize: how the model sees a text. Bodies are as in other servers:
//
//   POST /tokenize    {"prompt": "Hi there", "add_special_tokens": true}
//                     or {"messages": [...]}                  as generate would see it
//     -> {"count": 3, "max_model_len": 512, "tokens": [1, 402, 711]}
//   POST /detokenize  {"tokens": [402, 711]}  ->  {"prompt": "Hi there"}
#pragma once

#include "actors/stream_service.hpp"
#include "web/router.hpp"

namespace sluice::web::openai {

/// Also makes the completion endpoints known to the router, for what they answer to other methods
/// than POST. `service` must outlive the router.
void add_text_endpoints(Router& router, const StreamService& service);

}  // namespace sluice::web::openai
