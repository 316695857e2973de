#include "web/access/address_counter.hpp"

namespace sluice::web {

std::shared_ptr<void> AddressCounter::enter(const boost::asio::ip::address& address) {
  const std::string group = address_group(address);
  {
    const std::lock_guard lock(counts_->mutex);
    std::size_t& places = counts_->places[group];
    if (most_ > 0 && places >= most_) return nullptr;
    ++places;
  }
  const auto leave = [counts = counts_, group](void*) {
    const std::lock_guard lock(counts->mutex);
    const auto found = counts->places.find(group);
    if (--found->second == 0) counts->places.erase(found);
  };
  return {static_cast<void*>(counts_.get()), leave};
}

std::size_t AddressCounter::count(const boost::asio::ip::address& address) const {
  const std::lock_guard lock(counts_->mutex);
  const auto found = counts_->places.find(address_group(address));
  return found == counts_->places.end() ? 0 : found->second;
}

std::string address_group(const boost::asio::ip::address& address) {
  if (address.is_v4()) return address.to_string();
  const auto v6 = address.to_v6();
  if (v6.is_v4_mapped()) {
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, v6).to_string();
  }
  const auto bytes = v6.to_bytes();
  return {bytes.begin(), bytes.begin() + 8};
}

}  // namespace sluice::web
