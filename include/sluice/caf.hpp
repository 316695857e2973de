// The engine in the caller's own CAF actor system (CAF 0.17).
//
//   caf::actor_system_config settings;
//   sluice::tune(settings);                                   // wake-ups in microseconds
//   caf::actor_system system(settings);
//   sluice::EngineRef engine = sluice::spawn_engine(system, config);   // loads in the background
//
//   // in an actor that is a SinkRef:
//   request(engine, caf::infinite, sluice::generate_atom::value, request, sluice::SinkRef(this))
//       .then([=](const sluice::StreamRef& stream) { monitor(stream); }, ...);
//
// An engine is an actor on a thread of its own: it loads the model when it starts, and answers what
// was sent meanwhile afterwards. A model that can't be loaded ends it; the reason in the down
// message is an error of the category "sluiceapi" with an ErrorCode and a sentence, see
// describe(). It ends the way any actor does (an exit message from a link, a supervisor,
// anon_send_exit), and takes its streams with it: each sink gets its terminal event. Under a
// supervisor of the caller it is started again like any actor.
//
// A stream is an actor as well: it ends after the terminal event, with caf::exit_reason::normal
// after `done` and with an error after an `error` event, so a monitor sees the end of a stream.
//
// Flow. The sink is asked with each event (a request), and has taken it when it has answered: a
// handler that returns void answers on return, one that returns a promise later. Until then the
// event counts against Config::credit_window, so a slow sink slows down its own stream alone. A
// sink that dies ends its stream.
//
// Threads. Handlers of the caller's actors run where CAF runs them. The engine's actors share the
// workers of the caller's system and do not block them; the model computes on its own threads.
//
// What outlives what. An actor system waits for its actors: end the engine before the system goes
// (or it waits for ever). What handlers refer to needs no further care.
#pragma once

#include <caf/actor.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/atom.hpp>
#include <caf/error.hpp>
#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "sluice/engine.hpp"
#include "sluice/stop_rule.hpp"

namespace sluice {
namespace SLUICE_PUBLIC v0 {

using ready_atom = caf::atom_constant<caf::atom("ready")>;        ///< what do you serve?
using generate_atom = caf::atom_constant<caf::atom("generate")>;  ///< start a stream
using stats_atom = caf::atom_constant<caf::atom("stats")>;        ///< how is it going?
using shutdown_atom = caf::atom_constant<caf::atom("shutdown")>;  ///< finish and end
using event_atom = caf::atom_constant<caf::atom("event")>;        ///< a stream says something
using cancel_atom = caf::atom_constant<caf::atom("cancel")>;      ///< as Stream::cancel()
using pause_atom = caf::atom_constant<caf::atom("pause")>;        ///< as Stream::pause()
using resume_atom = caf::atom_constant<caf::atom("resume")>;      ///< as Stream::resume()
using change_atom = caf::atom_constant<caf::atom("change")>;      ///< as Stream::change()
using judge_atom = caf::atom_constant<caf::atom("judge")>;        ///< a question to a stop rule
using over_atom = caf::atom_constant<caf::atom("over")>;          ///< it will ask no more

/// Hears the events of a stream, or of many, told apart by their ids.
using SinkRef = caf::typed_actor<caf::reacts_to<event_atom, StreamId, Event>>;

/// One running stream. Monitors of it see its end.
using StreamRef =
    caf::typed_actor<caf::reacts_to<cancel_atom, std::string>,  // ends it, and says who asked
                     caf::reacts_to<pause_atom>,                // draw no further tokens
                     caf::reacts_to<resume_atom>,               // go on
                     caf::replies_to<change_atom, Changes>::with<void>>;  // refused with an error,
                                                                          // or done

/// An engine.
using EngineRef = caf::typed_actor<
    caf::replies_to<ready_atom>::with<Info>,                            // when it is loaded
    caf::replies_to<generate_atom, Request, SinkRef>::with<StreamRef>,  // at once; never refused
    caf::replies_to<stats_atom>::with<Stats>,
    // Lets running streams finish for so long, then ends them and itself, then answers.
    caf::replies_to<shutdown_atom, std::chrono::milliseconds>::with<shutdown_atom>>;

/// Settings that suit the engine: the scheduler's policy `sharing` (with CAF's default, workers
/// poll in their sleep and a message from outside waits a hundred microseconds), and the texts of
/// this library's errors. Call before the actor system is made. Optional.
void tune(caf::actor_system_config& settings);

/// Starts an engine. Returns at once and throws nothing of its own; see the top of this file.
/// Config::actor_threads counts for nothing: the workers are the system's.
EngineRef spawn_engine(caf::actor_system& system, const Config& config);

/// A sentence for a person, of a down message's or a response's error.
std::string describe(const caf::error& reason);

/// A stop rule as an actor. It gets (judge_atom, StopQuestion) and answers, at once or later by a
/// promise; see stop_rule.hpp for what both mean and JudgeRule for limits. One actor may serve any
/// number of streams, told apart by StopQuestion::stream, and hears (over_atom, stream) when one
/// has ended. When it dies, the streams that ask it fail as JudgeRule says. It runs in its own
/// system, which need not be the engine's: however slow it is, it holds up only the streams that
/// wait for it. That system must live until the streams have ended and the judge is destroyed.
using StopRuleRef = caf::typed_actor<caf::replies_to<judge_atom, StopQuestion>::with<StopAnswer>,
                                     caf::reacts_to<over_atom, StreamId>>;

/// The judge that asks this actor, for StopOptions::judge. Throws Error(kInvalidArgument) for an
/// empty handle.
std::shared_ptr<StopJudge> make_stop_judge(const StopRuleRef& rule);

/// Likewise for an actor without a static type. Messages that it does not know are failures.
std::shared_ptr<StopJudge> make_stop_judge(const caf::actor& rule);

}  // namespace v0
}  // namespace sluice

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::v0::Request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::v0::Event)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::v0::Changes)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::v0::Info)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::v0::Stats)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::v0::StopQuestion)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::v0::StopAnswer)
CAF_ERROR_CODE_ENUM(sluice::v0::ErrorCode, "sluiceapi")
