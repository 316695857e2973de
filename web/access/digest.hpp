// Keys and their digests.
//
// A key is made here, of 256 random bits, and never chosen by a person. So there is nothing to
// guess, and one round of SHA-256 hides it as well as a slow password hash would, while a request
// with a wrong key costs the server a microsecond and not a tenth of a second.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::web {

using Digest = std::array<std::uint8_t, 32>;

/// SHA-256.
Digest digest_of(std::string_view text);
/// Takes the same time whatever the bytes are.
bool equal_in_constant_time(const Digest& a, const Digest& b);

std::string to_hex(const Digest& digest);
/// Empty for anything but 64 hexadecimal digits.
std::optional<Digest> digest_from_hex(std::string_view hex);

/// "sluice-" and 43 letters, digits, '-' and '_' that hold 256 bits of the system's randomness.
/// Throws Error(kIo) when the system has none.
std::string new_key();
/// 20 to 200 letters, digits, '-' and '_': what may be sent as a key, in a header as well as in the
/// name of a WebSocket subprotocol.
bool has_form_of_key(std::string_view text);

}  // namespace sluice::web
