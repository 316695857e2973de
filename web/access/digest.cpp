#include "web/access/digest.hpp"

#include <openssl/evp.h>
#include <sys/random.h>

#include <algorithm>
#include <cstddef>

#include "engine/base/error.hpp"

namespace sluice::web {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kKeyDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::string_view kKeyBeginning = "sluice-";
constexpr std::size_t kKeyLength = 43;  // digits of 6 bits: 258 bits, of which 256 are needed
constexpr std::size_t kShortestKey = 20;
constexpr std::size_t kLongestKey = 200;

}  // namespace

Digest digest_of(std::string_view text) {
  Digest digest{};
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1 ||
      size != digest.size()) {
    throw Error(ErrorCode::kIo, "OpenSSL can't compute SHA-256; check its configuration.");
  }
  return digest;
}

bool equal_in_constant_time(const Digest& a, const Digest& b) {
  // Volatile: the compiler must not find out that the loop could end at the first difference.
  volatile std::uint8_t difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<std::uint8_t>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

std::string to_hex(const Digest& digest) {
  std::string hex;
  for (const std::uint8_t byte : digest) {
    hex += kHexDigits[byte >> 4U];
    hex += kHexDigits[byte & 15U];
  }
  return hex;
}

std::optional<Digest> digest_from_hex(std::string_view hex) {
  Digest digest{};
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const char lower = hex[i] >= 'A' && hex[i] <= 'F' ? static_cast<char>(hex[i] + 32) : hex[i];
    const std::size_t digit = kHexDigits.find(lower);
    if (digit == std::string_view::npos) return std::nullopt;
    digest[i / 2] = static_cast<std::uint8_t>(static_cast<unsigned>(digest[i / 2]) << 4U | digit);
  }
  return digest;
}

std::string new_key() {
  std::array<std::uint8_t, kKeyLength> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    throw Error(ErrorCode::kIo, "The system has no random bytes for a new key.");
  }
  std::string key(kKeyBeginning);
  for (const std::uint8_t byte : random) key += kKeyDigits[byte & 63U];
  return key;
}

bool has_form_of_key(std::string_view text) {
  return text.size() >= kShortestKey && text.size() <= kLongestKey &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return kKeyDigits.find(c) != std::string_view::npos; });
}

}  // namespace sluice::web
