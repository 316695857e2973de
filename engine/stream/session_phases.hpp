// The transition table of a session; drawn in docs/stop-rules.md.
#pragma once

#include <array>
#include <cstddef>

#include "engine/stream/session_machine.hpp"

namespace sluice {

/// What can happen to a session, as far as its phase is concerned.
enum class SessionInput {
  kPrefillMoved,  ///< the scheduler computes the prompt
  kTokenDrawn,
  kPaused,  ///< the client asks for it
  kResumed,
  kRestarted,      ///< submitted again after a failure
  kEnded,          ///< a rule, a cancel or a failure: the terminal event is out
  kTerminalTaken,  ///< the listener has the terminal event
  kListenerGone,
};

inline constexpr std::size_t kNumSessionPhases = 6;
inline constexpr std::size_t kNumSessionInputs = 8;

/// The phase after `input`. While paused, the phase that would hold otherwise goes on behind it
/// (see SessionPhases); kResumed from kPaused therefore has no entry of its own here.
constexpr SessionPhase next_phase(SessionPhase phase, SessionInput input) {
  using enum SessionPhase;
  constexpr std::array<std::array<SessionPhase, kNumSessionInputs>, kNumSessionPhases> kTable{{
      // prefill   token      pause      resume     restart    ended      taken      gone
      {kPrefill, kDecode, kPaused, kQueued, kQueued, kFlushing, kQueued, kClosed},    // queued
      {kPrefill, kDecode, kPaused, kPrefill, kQueued, kFlushing, kPrefill, kClosed},  // prefill
      {kPrefill, kDecode, kPaused, kDecode, kQueued, kFlushing, kDecode, kClosed},    // decode
      {kPaused, kPaused, kPaused, kPaused, kPaused, kFlushing, kPaused, kClosed},     // paused
      {kFlushing, kFlushing, kFlushing, kFlushing, kFlushing, kFlushing, kClosed, kClosed},
      {kClosed, kClosed, kClosed, kClosed, kClosed, kClosed, kClosed, kClosed},
  }};
  return kTable[static_cast<std::size_t>(phase)][static_cast<std::size_t>(input)];
}

/// The phase of one session, with what goes on behind a pause.
class SessionPhases {
 public:
  void on(SessionInput input) {
    const bool resumes = input == SessionInput::kResumed && shown_ == SessionPhase::kPaused;
    shown_ = resumes ? behind_ : next_phase(shown_, input);
    if (input != SessionInput::kPaused) behind_ = next_phase(behind_, input);
  }

  SessionPhase now() const { return shown_; }
  bool paused() const { return shown_ == SessionPhase::kPaused; }
  bool ended() const {
    return shown_ == SessionPhase::kFlushing || shown_ == SessionPhase::kClosed;
  }
  bool closed() const { return shown_ == SessionPhase::kClosed; }

 private:
  SessionPhase shown_ = SessionPhase::kQueued;
  SessionPhase behind_ = SessionPhase::kQueued;  ///< never kPaused
};

}  // namespace sluice
