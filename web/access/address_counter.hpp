// How many connections each client address has.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace sluice::web {

/// Thread-safe. Places may outlive the counter.
class AddressCounter {
 public:
  /// At most `most` places for one address; 0: any number.
  explicit AddressCounter(std::size_t most) : most_(most) {}

  /// A place, given back with its destruction; none when the address has as many as it may.
  std::shared_ptr<void> enter(const boost::asio::ip::address& address);
  std::size_t count(const boost::asio::ip::address& address) const;

 private:
  struct Counts {
    std::mutex mutex;
    std::unordered_map<std::string, std::size_t> places;  ///< by address; none with 0
  };
  const std::size_t most_;
  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

/// Whose connections count together: an IPv4 address, or the /64 of an IPv6 address, which is what
/// one customer or machine has.
std::string address_group(const boost::asio::ip::address& address);

}  // namespace sluice::web
