// The protocol of the program: every actor, every message, in the order of a request's life.
//
// Five kinds of actor. A session looks after one stream. The supervisor starts the others, and
// starts them again after a failure. The scheduler decides what each step holds, the KV manager
// who owns which block, and the executor runs steps on its backend.
//
//   engine     -> session     begin                         read the request, tokenise the prompt
//   session    -> supervisor  join                          tell me where the scheduler is
//   supervisor -> session     serve                         there; again after every restart
//   session    -> scheduler   submit                        answered with yes or a reason
//   scheduler  -> kv_manager  admit, reserve                answered with blocks
//   scheduler  -> executor    step                          answered with tokens
//   scheduler  -> kv_manager  commit                        what was computed, who has gone
//   scheduler  -> session     publish                       once per step and session
//   (judge)    -> session     judged                        what a rule of the caller says
//   session    -> scheduler   credit                        draw so many more
//   session    -> scheduler   steer                         another maximum, another temperature
//   session    -> scheduler   remove                        over
//   scheduler  -> kv_manager  release                       its blocks are free
//   inspector  -> everybody   inspect                       somebody looks: what are you doing?
//
// Ordering that the code relies on: messages of one priority from one actor to another arrive in
// the order they were sent. So a sequence's release follows its admission, a removal follows its
// submission, and both stay at normal priority; only what comes from outside to end something
// (cancel, gone, exit) overtakes. Publications carry the epoch of their scheduler, so that nothing
// a dead one said is taken for its successor's word.
//
// All payloads stay in this process; big ones are moved, never copied.
#pragma once

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/atom.hpp>
#include <caf/error.hpp>
#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/engine_view.hpp"
#include "engine/backend/backend.hpp"
#include "engine/base/error.hpp"
#include "engine/base/types.hpp"
#include "engine/kv/kv_manager.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/stream/request.hpp"

CAF_BEGIN_TYPE_ID_BLOCK(sluice_actors, caf::first_custom_type_id)
CAF_ADD_ATOM(sluice_actors, sluice, start_atom, "start")
CAF_ADD_ATOM(sluice_actors, sluice, prepare_atom, "prepare")
CAF_ADD_ATOM(sluice_actors, sluice, begin_atom, "begin")
CAF_ADD_ATOM(sluice_actors, sluice, join_atom, "join")
CAF_ADD_ATOM(sluice_actors, sluice, serve_atom, "serve")
CAF_ADD_ATOM(sluice_actors, sluice, refuse_atom, "refuse")
CAF_ADD_ATOM(sluice_actors, sluice, submit_atom, "submit")
CAF_ADD_ATOM(sluice_actors, sluice, admit_atom, "admit")
CAF_ADD_ATOM(sluice_actors, sluice, reserve_atom, "reserve")
CAF_ADD_ATOM(sluice_actors, sluice, step_atom, "step")
CAF_ADD_ATOM(sluice_actors, sluice, commit_atom, "commit")
CAF_ADD_ATOM(sluice_actors, sluice, publish_atom, "publish")
CAF_ADD_ATOM(sluice_actors, sluice, judged_atom, "judged")
CAF_ADD_ATOM(sluice_actors, sluice, credit_atom, "credit")
CAF_ADD_ATOM(sluice_actors, sluice, go_on_atom, "go_on")
CAF_ADD_ATOM(sluice_actors, sluice, status_atom, "status")
CAF_ADD_ATOM(sluice_actors, sluice, delivered_atom, "delivered")
CAF_ADD_ATOM(sluice_actors, sluice, unheard_atom, "unheard")
CAF_ADD_ATOM(sluice_actors, sluice, pause_atom, "pause")
CAF_ADD_ATOM(sluice_actors, sluice, resume_atom, "resume")
CAF_ADD_ATOM(sluice_actors, sluice, change_atom, "change")
CAF_ADD_ATOM(sluice_actors, sluice, steer_atom, "steer")
CAF_ADD_ATOM(sluice_actors, sluice, cancel_atom, "cancel")
CAF_ADD_ATOM(sluice_actors, sluice, gone_atom, "gone")
CAF_ADD_ATOM(sluice_actors, sluice, tick_atom, "tick")
CAF_ADD_ATOM(sluice_actors, sluice, remove_atom, "remove")
CAF_ADD_ATOM(sluice_actors, sluice, release_atom, "release")
CAF_ADD_ATOM(sluice_actors, sluice, reset_atom, "reset")
CAF_ADD_ATOM(sluice_actors, sluice, stop_atom, "stop")
CAF_ADD_ATOM(sluice_actors, sluice, inspect_atom, "inspect")
CAF_END_TYPE_ID_BLOCK(sluice_actors)

namespace sluice {

/// Counts the schedulers of one engine: 1, and one more after every restart.
using Epoch = std::uint64_t;

/// Why an actor ended, as its down message says.
enum class ActorError : std::uint8_t {
  kBackendFailed = 1,  ///< the backend reported that it can't go on, or could not be made
  kHandlerFailed,      ///< an exception escaped from a message handler
  kUnexpected,         ///< a message or error that nobody should have sent
  kAuditFailed,        ///< an integrity check found a broken promise
};

struct Service;         // where to submit
struct Refusal;         // why not
struct Publications;    // what happened to one sequence in one step
struct Steering;        // what a running sequence does differently from now on
struct Submission;      // one sequence, and who asks
struct AdmitRequest;    // waiting sequences, in order of arrival
struct AdmitAnswer;     // the answers, up to the first that was not admitted
struct ReserveRequest;  // positions that the next step needs
struct ReserveAnswer;   // blocks for them
struct CommitNotice;    // what a step computed
struct BackendReport;   // how making the backend went
struct Inspection;      // who wants to see what everybody is doing
struct Crew;            // everybody, as the supervisor knows them
struct SessionView;     // what each of them is doing
struct SchedulerView;
struct KvView;
struct ExecutorView;

// clang-format off

/// One stream: its request, its machine, its listener.
using SessionRef = caf::typed_actor<
    caf::reacts_to<begin_atom>,                          // once, first
    caf::reacts_to<serve_atom, Service>,                 // submit (again) here
    caf::reacts_to<refuse_atom, Refusal>,                // no service any more: end with an error
    caf::reacts_to<publish_atom, Epoch, Publications>,   // from the scheduler
    caf::reacts_to<judged_atom, std::uint64_t, StopAnswer>,  // to a question of this number
    caf::reacts_to<delivered_atom, std::uint64_t>,       // the listener has events up to here
    caf::reacts_to<unheard_atom>,                        // nobody is left who could acknowledge
    caf::reacts_to<pause_atom>,                          // draw no further tokens
    caf::reacts_to<resume_atom>,                         // go on
    caf::reacts_to<change_atom, StreamChanges>,          // other limits and stops from now on
    caf::reacts_to<cancel_atom, std::string>,            // end, and say who asked (high priority)
    caf::reacts_to<gone_atom>,                           // the listener is gone (high priority)
    caf::reacts_to<tick_atom>,                           // to itself: time limit, heartbeat
    caf::replies_to<inspect_atom>::with<SessionView>>;

/// Starts the machine, watches it, starts it again, stops it.
using SupervisorRef = caf::typed_actor<
    caf::replies_to<start_atom>::with<BackendReport>,           // once; the engine waits
    caf::replies_to<join_atom, SequenceId, SessionRef>::with<join_atom>,  // a new session
    caf::reacts_to<tick_atom, std::uint64_t>,                   // to itself: a timer, by number
    caf::replies_to<stop_atom, std::chrono::milliseconds>::with<stop_atom>,  // after all is down
    caf::replies_to<inspect_atom>::with<Crew>>;

/// Decides which sequences take part in the next step.
using SchedulerRef = caf::typed_actor<
    caf::replies_to<submit_atom, Submission>::with<RejectReason>,
    caf::reacts_to<credit_atom, SequenceId, std::int32_t>,      // may draw so many more tokens
    caf::reacts_to<go_on_atom, SequenceId>,                     // the verdict: not the end
    caf::reacts_to<steer_atom, SequenceId, Steering>,           // from the next token on
    caf::reacts_to<remove_atom, SequenceId>,                    // over
    caf::replies_to<status_atom, SequenceId>::with<SequenceStatus>,
    caf::reacts_to<tick_atom>,                                  // to itself: queue deadline
    caf::replies_to<inspect_atom>::with<SchedulerView>>;

/// Knows who owns which block; frees the blocks of every session that dies.
using KvManagerRef = caf::typed_actor<
    caf::replies_to<admit_atom, AdmitRequest>::with<AdmitAnswer>,
    caf::replies_to<reserve_atom, ReserveRequest>::with<ReserveAnswer>,
    caf::reacts_to<commit_atom, CommitNotice>,
    caf::reacts_to<release_atom, SequenceId>,
    caf::replies_to<reset_atom>::with<reset_atom>,              // the backend lost its pool
    caf::replies_to<inspect_atom>::with<KvView>>;

/// Owns the backend; a thread of its own.
using ExecutorRef = caf::typed_actor<
    caf::replies_to<prepare_atom>::with<BackendReport>,         // make the backend and its pool
    caf::replies_to<step_atom, StepBatch>::with<StepResult>,    // one at a time
    caf::reacts_to<tick_atom>,                                  // to itself: is the device done?
    caf::replies_to<inspect_atom>::with<ExecutorView>>;         // after the CPU's step

/// Asks all of them when somebody looks.
using InspectorRef = caf::typed_actor<caf::reacts_to<inspect_atom, Inspection>>;

// clang-format on

struct Service {
  Epoch epoch = 0;
  SchedulerRef scheduler;
};

struct Refusal {
  std::string code;     ///< as in ErrorEvent
  std::string message;  ///< a sentence for a person
};

struct Publications {
  std::vector<Publication> list;
};

/// What is empty stays.
struct Steering {
  std::optional<Position> max_new_tokens;
  std::shared_ptr<const SamplingParams> sampling;
};

struct Submission {
  SequenceRequest request;
  SessionRef session;
};

struct AdmitRequest {
  struct Entry {
    SequenceId sequence = 0;
    std::vector<TokenId> tokens;
    std::string salt;
    KvFork fork{};
    SessionRef session;  ///< monitored as long as the sequence is open
  };
  std::vector<Entry> entries;
};

/// Entries of the request in order; those after the first that was not admitted are absent.
struct AdmitAnswer {
  struct Entry {
    SequenceId sequence = 0;
    KvAdmission admission;
  };
  std::vector<Entry> entries;
  std::vector<BlockMove> moves;  ///< for the next step
};

struct ReserveRequest {
  std::vector<SequenceId> preempt;  ///< their blocks are freed before anything is granted
  std::vector<KvWant> wants;        ///< most urgent first
  std::vector<SequenceId> held;     ///< granted for this step already
};

struct ReserveAnswer {
  std::vector<KvGrant> grants;   ///< one for each want, in order
  std::vector<SequenceId> gone;  ///< of `held`: closed meanwhile, because the session died
  std::vector<BlockMove> moves;  ///< for the next step, after earlier ones
};

struct CommitNotice {
  std::vector<Scheduler::Commit> commits;
  std::vector<SequenceId> released;
};

struct BackendReport {
  bool ok = false;
  ErrorCode code = ErrorCode::kInternal;  ///< meaningful when not ok
  std::string message;                    ///< likewise
  std::string description;                ///< the backend's, when ok
  BackendMemory memory;
  DeviceProbe device_probe;  ///< may be empty
};

/// Answers as they come in; the last one to let go of it hands the view over, whoever died.
struct Gathering {
  explicit Gathering(std::function<void(EngineView)> on_done) : done(std::move(on_done)) {}
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;
  ~Gathering() { done(std::move(view)); }

  EngineView view;
  std::function<void(EngineView)> done;  ///< not empty
};

struct Inspection {
  std::shared_ptr<Gathering> gathering;
};

struct Crew {
  SchedulerRef scheduler;  ///< each may be missing, during a restart
  KvManagerRef kv;
  ExecutorRef executor;
  std::vector<std::pair<SequenceId, SessionRef>> sessions;
  std::size_t mailbox = 0;  ///< the supervisor's own
};

struct SessionView {
  std::string held;  ///< see StreamView
  std::size_t mailbox = 0;
};

struct SchedulerView {
  std::vector<SequenceStatus> sequences;
  std::vector<StepView> steps;
  std::size_t mailbox = 0;
};

struct KvView {
  std::int32_t block_size = 0;
  std::vector<KvManager::BlockState> blocks;
  std::size_t mailbox = 0;
};

struct ExecutorView {
  std::size_t mailbox = 0;
};

}  // namespace sluice

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::Service)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::Refusal)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::Publications)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::Steering)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::StreamChanges)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::StopAnswer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::Submission)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::AdmitRequest)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::AdmitAnswer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::ReserveRequest)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::ReserveAnswer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::CommitNotice)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::BackendReport)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::Inspection)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::Crew)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::SessionView)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::SchedulerView)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::KvView)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::ExecutorView)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::RejectReason)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::SequenceStatus)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::StepBatch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::StepResult)
CAF_ERROR_CODE_ENUM(sluice::ActorError, "sluice")
