// The line from the outside to one session actor: what StreamHandle steers with.
//
// The session opens it and cuts it when it ends, so handles may outlive the session and the
// engine: what they say after the end goes nowhere.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "actors/interfaces.hpp"
#include "actors/stream_service.hpp"

namespace sluice {

/// Safe to use from any thread.
class SessionLink {
 public:
  void open(const SessionRef& session);
  void cut();
  /// Empty before open() and after cut().
  SessionRef session() const;

 private:
  mutable std::mutex mutex_;
  SessionRef session_;
  bool cut_ = false;
};

/// One per stream, shared by the copies of its handle. When the last copy of a handle with
/// Delivery::kAcknowledged goes, nobody can acknowledge any more; the session is told, or the
/// stream would stand still for ever.
class SessionControl final : public StreamControl {
 public:
  SessionControl(std::shared_ptr<SessionLink> link, Delivery delivery);
  ~SessionControl() override;
  SessionControl(const SessionControl&) = delete;
  SessionControl& operator=(const SessionControl&) = delete;

  void cancel(std::string detail) override;
  void delivered(std::uint64_t event_number) override;
  void listener_gone() override;
  void pause() override;
  void resume() override;
  void change(StreamChanges changes) override;

 private:
  std::shared_ptr<SessionLink> link_;
  Delivery delivery_;
};

}  // namespace sluice
