#include "web/request_id.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>

namespace sluice::web {
namespace {

constexpr std::size_t kLongestId = 128;

bool is_harmless(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-._:/+=@").find(c) != std::string_view::npos;
}

}  // namespace

std::string request_id_from(std::string_view offered) {
  const bool sane = !offered.empty() && offered.size() <= kLongestId &&
                    std::all_of(offered.begin(), offered.end(), is_harmless);
  return sane ? std::string(offered) : random_key();
}

std::string random_key() {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  constexpr int kBits = 128;
  std::random_device random;
  std::string key;
  std::uint64_t pool = 0;
  int pooled = 0;
  for (int left = kBits; left > 0; left -= 6) {
    if (pooled < 6) {
      pool = (pool << 32) | random();
      pooled += 32;
    }
    pooled -= 6;
    std::uint64_t digit = (pool >> pooled) & 63U;
    if (left < 6) digit &= ~((std::uint64_t{1} << (6 - left)) - 1);  // padding bits are 0
    key += kDigits[digit];
  }
  return key;
}

}  // namespace sluice::web
