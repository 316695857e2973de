#include "web/connection.hpp"

namespace sluice::web {

void ConnectionList::add(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  connections_.emplace(connection.get(), connection);
}

void ConnectionList::remove(const Connection* connection) {
  const std::lock_guard lock(mutex_);
  connections_.erase(connection);
  if (connections_.empty()) emptied_.notify_all();
}

std::vector<std::shared_ptr<Connection>> ConnectionList::all() const {
  std::vector<std::shared_ptr<Connection>> alive;
  const std::lock_guard lock(mutex_);
  alive.reserve(connections_.size());
  for (const auto& [address, weak] : connections_) {
    if (auto connection = weak.lock()) alive.push_back(std::move(connection));
  }
  return alive;
}

std::size_t ConnectionList::size() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

bool ConnectionList::wait_until_empty(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return emptied_.wait_for(lock, limit, [this] { return connections_.empty(); });
}

}  // namespace sluice::web
