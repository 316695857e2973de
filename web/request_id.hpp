// Names of requests and streams, for logs: what a proxy or client has given a request, or a new
// one.
#pragma once

#include <string>
#include <string_view>

namespace sluice::web {

/// `offered` when it is a name that can't do harm in a header or a log: 1 to 128 letters, digits
/// and -._:/+=@. Otherwise a new one.
std::string request_id_from(std::string_view offered);

/// 128 bits of the system's randomness as base64url: 22 letters that nobody can guess.
std::string random_key();

}  // namespace sluice::web
