// What a stream gives when it has the machine to itself, computed without actors: the measure
// for everything that happens under concurrency and failure.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "actors/engine.hpp"
#include "actors/stream_intake.hpp"
#include "engine/schedule/engine_loop.hpp"

namespace sluice::test {

/// Runs the request through EngineLoop and joins the tokens' bytes, the end token left out.
inline std::string text_alone(const PreparedEngine& prepared, const GenerateRequest& request) {
  ServiceContext service;
  service.tokenizer = prepared.tokenizer;
  service.chat_template = prepared.chat_template;
  service.context_length = prepared.plan.context;
  service.default_max_new_tokens = prepared.config.default_max_new_tokens;
  service.end_tokens = union_of_end_tokens(*prepared.tokenizer, *prepared.chat_template);
  auto stream = std::get<PreparedStream>(prepare_stream(request, service));

  const auto backend = prepared.make_backend();
  // A pool that one sequence can't fill.
  const std::int32_t num_blocks = prepared.plan.context / prepared.plan.block_size + 2;
  backend->allocate_pool({num_blocks, prepared.plan.block_size});
  KvManagerOptions kv_options;
  kv_options.num_blocks = num_blocks;
  kv_options.block_size = prepared.plan.block_size;
  KvManager kv(kv_options);
  SchedulerOptions options;
  options.context_length = prepared.plan.context;
  Scheduler scheduler(options);
  SequenceRequest sequence;
  sequence.id = 1;
  sequence.prompt = stream.prompt;
  sequence.sampling = stream.sampling;
  sequence.max_new_tokens = stream.session.max_new_tokens;
  sequence.end_tokens = stream.end_tokens;
  EngineLoop loop(*backend, scheduler, kv);
  std::string text;
  for (const SampledToken& token : loop.generate(std::move(sequence))) {
    if (!prepared.tokenizer->is_special(token.id))
      text += prepared.tokenizer->token_bytes(token.id);
  }
  return text;
}

}  // namespace sluice::test
