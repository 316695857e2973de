// A stop rule as an actor of the embedding program; the one header here that shows CAF types.
//
//   using namespace sluice;
//   StopRuleRef rule = system.spawn<MyRule>();       // system: the program's own actor system
//   request.stop.judge.judge = make_stop_judge(rule);
//   engine.generate(std::move(request), handler, Delivery::kOnReturn);
//
// The rule gets (judge_atom, StopQuestion) and answers with a StopAnswer, at once or later by a
// promise; see custom_stop.hpp for what both mean and JudgeRule for limits. One actor may serve
// any number of streams, told apart by StopQuestion::stream, and hears (over_atom, stream) when
// one has ended. When it dies, the streams that ask it fail as JudgeRule says.
//
// The rule runs in its own system, on its own threads: however slow it is, it holds up only the
// streams that wait for it. That system must live until the streams have ended and the judge is
// destroyed.
#pragma once

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/atom.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <memory>

#include "engine/stream/custom_stop.hpp"

namespace sluice {

using judge_atom = caf::atom_constant<caf::atom("judge")>;
using over_atom = caf::atom_constant<caf::atom("over")>;

using StopRuleRef = caf::typed_actor<caf::replies_to<judge_atom, StopQuestion>::with<StopAnswer>,
                                     caf::reacts_to<over_atom, SequenceId>>;

/// The judge that asks this actor. Throws Error(kInvalidArgument) for an empty handle.
std::shared_ptr<StopJudge> make_stop_judge(const StopRuleRef& rule);

/// Likewise for an actor without a static type. Messages that it does not know are failures.
std::shared_ptr<StopJudge> make_stop_judge(const caf::actor& rule);

}  // namespace sluice

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::StopQuestion)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::StopAnswer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::StopReply)
