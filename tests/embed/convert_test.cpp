// Public types and the engine's own say the same.
#include "embed/convert.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace {

using namespace sluice;

TEST_CASE("public names of rules are those of the engine") {
  for (int i = 0; i <= static_cast<int>(StopRule::kCancelled); ++i) {
    CHECK(name(static_cast<v0::StopRule>(i)) == name(static_cast<StopRule>(i)));
    CHECK(finish_reason(static_cast<v0::StopRule>(i)) == finish_reason(static_cast<StopRule>(i)));
    const v0::Event event = embed::to_public(DoneEvent{.rule = static_cast<StopRule>(i)});
    CHECK(name(std::get<v0::DoneEvent>(event).rule) == name(static_cast<StopRule>(i)));
  }
  for (int i = 0; i <= static_cast<int>(MaximumSource::kContext); ++i) {
    CHECK(name(static_cast<v0::MaximumSource>(i)) == name(static_cast<MaximumSource>(i)));
    const v0::Event event =
        embed::to_public(AcceptedEvent{.max_source = static_cast<MaximumSource>(i)});
    CHECK(name(std::get<v0::AcceptedEvent>(event).max_source) ==
          name(static_cast<MaximumSource>(i)));
  }
  CHECK(v0::kNoToken == kNoToken);
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    const v0::Error error = embed::to_public(Error(static_cast<ErrorCode>(i), "why"));
    CHECK(static_cast<int>(error.code()) == i + 1);
    CHECK(to_string(error.code()) != "unknown");
    CHECK(std::string(error.what()) == "why");
  }
}

TEST_CASE("defaults of public settings are those of the engine") {
  const GenerateRequest request = embed::to_internal(v0::Request{});
  CHECK(request.sampling == SamplingParams{});
  const StopOptions stop;
  CHECK(request.stop.max_new_tokens == stop.max_new_tokens);
  CHECK(request.stop.min_new_tokens == stop.min_new_tokens);
  CHECK(request.stop.judge.ahead == stop.judge.ahead);
  CHECK(request.stop.judge.limit == stop.judge.limit);
  CHECK(request.chat.add_generation_prompt == ChatOptions{}.add_generation_prompt);

  const EngineConfig config = embed::to_internal(v0::Config{});
  const EngineConfig expected;
  CHECK(config.plan.headroom == expected.plan.headroom);
  CHECK(config.plan.block_size == expected.plan.block_size);
  CHECK(config.plan.kv_type_k == expected.plan.kv_type_k);
  CHECK(config.plan.kv_type_v == expected.plan.kv_type_v);
  CHECK(config.plan.max_batch_tokens == expected.plan.max_batch_tokens);
  CHECK(config.scheduler.prefill_chunk == expected.scheduler.prefill_chunk);
  CHECK(config.scheduler.max_running == expected.scheduler.max_running);
  CHECK(config.scheduler.max_waiting == expected.scheduler.max_waiting);
  CHECK(config.scheduler.max_waiting_tokens == expected.scheduler.max_waiting_tokens);
  CHECK(config.scheduler.queue_deadline == expected.scheduler.queue_deadline);
  CHECK(config.default_max_new_tokens == expected.default_max_new_tokens);
  CHECK(config.credit_window == expected.credit_window);
  CHECK(config.heartbeat_interval == expected.heartbeat_interval);
  CHECK(config.actor_threads == expected.actor_threads);
  CHECK(config.prefix_cache == expected.prefix_cache);
  CHECK(config.restart.max_restarts == expected.restart.max_restarts);
  CHECK(config.restart.window == expected.restart.window);
  CHECK(config.restart.first_pause == expected.restart.first_pause);
}

TEST_CASE("every field of a request arrives") {
  v0::Request request;
  request.input = std::vector<v0::ChatMessage>{{"user", "hello", "thought", "[1]", "call", "me"}};
  request.chat = {false, "[]", "{}"};
  request.parse_special = true;
  request.sampling = {0.5F, 7, 0.8F, 0.1F, 1.5F, 0.25F, 0.75F, 3, {{4, 2.0F}}};
  request.seed = 77;
  request.stop.max_new_tokens = 9;
  request.stop.min_new_tokens = 2;
  request.stop.ignore_end_tokens = true;
  request.stop.stop_token_ids = {5, 6};
  request.stop.stop_strings = {
      {"END", v0::StopBoundary::kLineStart, v0::StopScope::kBoth, true},
      {"x", v0::StopBoundary::kAfterSpace, v0::StopScope::kReasoning, false}};
  request.stop.stop_patterns = {{"a+", v0::StopScope::kReasoning, true}};
  request.stop.min_confidence = 0.25F;
  request.stop.patience = 3;
  request.stop.repetition_ngram = 4;
  request.stop.repetition_times = 5;
  request.stop.time_limit = std::chrono::milliseconds(6);
  request.salt = "salt";
  request.priority = -2;
  request.sample_group = 12;

  const GenerateRequest result = embed::to_internal(request);
  const auto& message = std::get<std::vector<ChatMessage>>(result.input).at(0);
  CHECK(message.role + message.content + message.reasoning_content + message.tool_calls +
            message.tool_call_id + message.name ==
        "userhellothought[1]callme");
  CHECK_FALSE(result.chat.add_generation_prompt);
  CHECK(result.chat.tools == "[]");
  CHECK(result.chat.template_options == "{}");
  CHECK(result.parse_special);
  SamplingParams sampling;
  sampling.temperature = 0.5F;
  sampling.top_k = 7;
  sampling.top_p = 0.8F;
  sampling.min_p = 0.1F;
  sampling.repetition_penalty = 1.5F;
  sampling.presence_penalty = 0.25F;
  sampling.frequency_penalty = 0.75F;
  sampling.num_top_logprobs = 3;
  sampling.logit_bias = {{4, 2.0F}};
  CHECK(result.sampling == sampling);
  CHECK(result.seed == 77);
  CHECK(result.stop.max_new_tokens == 9);
  CHECK(result.stop.min_new_tokens == 2);
  CHECK(result.stop.ignore_end_tokens);
  CHECK(result.stop.stop_token_ids == std::vector<TokenId>{5, 6});
  CHECK(result.stop.stop_strings ==
        std::vector<StopString>{{"END", StopBoundary::kLineStart, StopScope::kBoth, true},
                                {"x", StopBoundary::kAfterSpace, StopScope::kReasoning, false}});
  CHECK(result.stop.stop_patterns == std::vector<StopPattern>{{"a+", StopScope::kReasoning, true}});
  CHECK(result.stop.min_confidence == 0.25F);
  CHECK(result.stop.patience == 3);
  CHECK(result.stop.repetition_ngram == 4);
  CHECK(result.stop.repetition_times == 5);
  CHECK(result.stop.time_limit == std::chrono::milliseconds(6));
  CHECK(result.salt == "salt");
  CHECK(result.priority == -2);
  CHECK(result.sample_group == 12);
}

TEST_CASE("every field of an event arrives") {
  const auto accepted = std::get<v0::AcceptedEvent>(embed::to_public(AcceptedEvent{
      1, "model", 2, 3, 4, 5, MaximumSource::kLearned, ReasoningMarkers{"<a>", "</a>", true}}));
  CHECK(accepted.number == 1);
  CHECK(accepted.model == "model");
  CHECK(accepted.prompt_tokens == 2);
  CHECK(accepted.max_new_tokens == 3);
  CHECK(accepted.context_length == 4);
  CHECK(accepted.seed == 5);
  CHECK(accepted.reasoning->open + accepted.reasoning->close == "<a></a>");
  CHECK(accepted.reasoning->starts_open);
  const auto token = std::get<v0::TokenEvent>(embed::to_public(
      TokenEvent{2, "ab", {{7, "a", -0.5F, {{8, -1.5F}, {9, -2.5F}}}, {10, "b", -0.25F, {}}}}));
  CHECK(token.number == 2);
  CHECK(token.text == "ab");
  REQUIRE(token.pieces.size() == 2);
  CHECK(token.pieces[0].id == 7);
  CHECK(token.pieces[0].text == "a");
  CHECK(token.pieces[0].logprob == -0.5F);
  CHECK(token.pieces[0].top.at(1).id == 9);
  CHECK(token.pieces[0].top.at(1).logprob == -2.5F);
  const auto done = std::get<v0::DoneEvent>(
      embed::to_public(DoneEvent{3,
                                 StopRule::kStopString,
                                 "END",
                                 11,
                                 12,
                                 "detail",
                                 {13, 14, 15},
                                 {std::chrono::microseconds(16), std::chrono::microseconds(17),
                                  std::chrono::microseconds(18), 19.5}}));
  CHECK(done.number == 3);
  CHECK(done.matched + done.detail == "ENDdetail");
  CHECK(done.matched_token == 11);
  CHECK(done.position == 12);
  CHECK(done.usage.prompt_tokens == 13);
  CHECK(done.usage.cached_tokens == 14);
  CHECK(done.usage.completion_tokens == 15);
  CHECK(done.timing.queued.count() == 16);
  CHECK(done.timing.first_token.count() == 17);
  CHECK(done.timing.total.count() == 18);
  CHECK(done.timing.tokens_per_second == 19.5);
  const auto error = std::get<v0::ErrorEvent>(embed::to_public(ErrorEvent{4, "code", "why"}));
  CHECK(error.code + error.message == "codewhy");
  const auto beat =
      std::get<v0::HeartbeatEvent>(embed::to_public(HeartbeatEvent{5, "queued", 6, 7, 8}));
  CHECK(beat.phase == "queued");
  CHECK(beat.queue_position == 6);
  CHECK(beat.prefill_done == 7);
  CHECK(beat.prefill_total == 8);
}

}  // namespace
