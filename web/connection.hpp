// What the server knows of each open connection, and the list of all of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace sluice::web {

/// An open connection. The calls may come from any thread, and only pass the wish on.
class Connection {
 public:
  virtual ~Connection() = default;
  /// Finish what is under way, say goodbye and end.
  virtual void shut_down() = 0;
  /// End now.
  virtual void abort() = 0;
  /// The keys have changed: end if yours is no longer among them.
  virtual void check_key() {}
};

/// Every connection from its start to its destruction. Thread-safe.
class ConnectionList {
 public:
  void add(const std::shared_ptr<Connection>& connection);
  void remove(const Connection* connection);
  std::vector<std::shared_ptr<Connection>> all() const;
  std::size_t size() const;
  /// False when it took longer than `limit`.
  bool wait_until_empty(std::chrono::milliseconds limit);

 private:
  mutable std::mutex mutex_;
  std::condition_variable emptied_;
  std::unordered_map<const Connection*, std::weak_ptr<Connection>> connections_;
};

}  // namespace sluice::web
