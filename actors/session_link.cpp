#include "actors/session_link.hpp"

#include <caf/send.hpp>
#include <utility>

namespace sluice {

void SessionLink::open(const SessionRef& session) {
  const std::lock_guard lock(mutex_);
  if (!cut_) session_ = session;
}

void SessionLink::cut() {
  SessionRef last;  // given up after the lock, in case this was the last reference
  const std::lock_guard lock(mutex_);
  cut_ = true;
  std::swap(last, session_);
}

SessionRef SessionLink::session() const {
  const std::lock_guard lock(mutex_);
  return session_;
}

SessionControl::SessionControl(std::shared_ptr<SessionLink> link, Delivery delivery)
    : link_(std::move(link)), delivery_(delivery) {}

SessionControl::~SessionControl() {
  if (delivery_ != Delivery::kAcknowledged) return;
  if (const SessionRef session = link_->session()) caf::anon_send(session, unheard_atom::value);
}

void SessionControl::cancel(std::string detail) {
  if (const SessionRef session = link_->session()) {
    caf::anon_send<caf::message_priority::high>(session, cancel_atom::value, std::move(detail));
  }
}

void SessionControl::delivered(std::uint64_t event_number) {
  if (const SessionRef session = link_->session()) {
    caf::anon_send(session, delivered_atom::value, event_number);
  }
}

void SessionControl::listener_gone() {
  if (const SessionRef session = link_->session()) {
    caf::anon_send<caf::message_priority::high>(session, gone_atom::value);
  }
}

void SessionControl::pause() {
  if (const SessionRef session = link_->session()) caf::anon_send(session, pause_atom::value);
}

void SessionControl::resume() {
  if (const SessionRef session = link_->session()) caf::anon_send(session, resume_atom::value);
}

void SessionControl::change(StreamChanges changes) {
  if (const SessionRef session = link_->session()) {
    caf::anon_send(session, change_atom::value, std::move(changes));
  }
}

}  // namespace sluice
