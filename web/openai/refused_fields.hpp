// Fields of the chat API that this server knows and does not follow: taken where that changes
// nothing, refused where it would change the answer.
#pragma once

#include "web/json_reader.hpp"

namespace sluice::web::openai {

void refuse_what_is_not_done(ObjectReader& fields);

}  // namespace sluice::web::openai
