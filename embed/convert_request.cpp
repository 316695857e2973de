#include <algorithm>
#include <iterator>
#include <tuple>

#include "embed/convert.hpp"
#include "engine/model/kv_types.hpp"

namespace sluice::embed {

namespace {

StopBoundary to_internal(api::StopBoundary boundary) {
  switch (boundary) {
    case api::StopBoundary::kLineStart:
      return StopBoundary::kLineStart;
    case api::StopBoundary::kAfterSpace:
      return StopBoundary::kAfterSpace;
    default:
      return StopBoundary::kAnywhere;
  }
}

StopScope to_internal(api::StopScope scope) {
  switch (scope) {
    case api::StopScope::kReasoning:
      return StopScope::kReasoning;
    case api::StopScope::kBoth:
      return StopScope::kBoth;
    default:
      return StopScope::kContent;
  }
}

StopString to_internal(api::StopString stop) {
  return {.text = std::move(stop.text),
          .boundary = to_internal(stop.boundary),
          .scope = to_internal(stop.scope),
          .include = stop.include};
}

StopPattern to_internal(api::StopPattern stop) {
  return {.pattern = std::move(stop.pattern),
          .scope = to_internal(stop.scope),
          .include = stop.include};
}

ChatMessage to_internal(api::ChatMessage message) {
  return {.role = std::move(message.role),
          .content = std::move(message.content),
          .reasoning_content = std::move(message.reasoning_content),
          .tool_calls = std::move(message.tool_calls),
          .tool_call_id = std::move(message.tool_call_id),
          .name = std::move(message.name)};
}

template <class Result, class Value>
std::vector<Result> all_to_internal(std::vector<Value> values) {
  std::vector<Result> result;
  result.reserve(values.size());
  for (Value& value : values) result.push_back(to_internal(std::move(value)));
  return result;
}

SamplingParams to_internal(const api::Sampling& sampling) {
  SamplingParams result;
  result.temperature = sampling.temperature;
  result.top_k = sampling.top_k;
  result.top_p = sampling.top_p;
  result.min_p = sampling.min_p;
  result.repetition_penalty = sampling.repetition_penalty;
  result.presence_penalty = sampling.presence_penalty;
  result.frequency_penalty = sampling.frequency_penalty;
  result.num_top_logprobs = sampling.num_top_logprobs;
  for (const api::LogitBias& bias : sampling.logit_bias) {
    result.logit_bias.push_back({bias.token, bias.bias});
  }
  return result;
}

api::SampledToken to_public(const SampledToken& token) {
  api::SampledToken result{token.id, token.logprob, token.top_probability, {}};
  for (const TokenLogprob& other : token.top) result.top.push_back({other.id, other.logprob});
  return result;
}

CustomEnd to_internal(api::CustomEnd end) {
  return {std::move(end.label), end.keep};
}

CustomStop to_internal(api::CustomStop rule) {
  if (!rule) return {};
  return [rule = std::move(rule)](const StopView& view) -> std::optional<CustomEnd> {
    auto end = rule({.token = to_public(view.token),
                     .text = view.text,
                     .held_bytes = view.held_bytes,
                     .num_tokens = view.num_tokens,
                     .max_new_tokens = view.max_new_tokens});
    if (!end) return std::nullopt;
    return to_internal(std::move(*end));
  };
}

StopAnswer to_internal(api::StopAnswer answer) {
  StopAnswer result;
  result.failure = std::move(answer.failure);
  for (auto& end : answer.ends) {
    if (end) {
      result.ends.emplace_back(to_internal(std::move(*end)));
    } else {
      result.ends.emplace_back(std::nullopt);
    }
  }
  return result;
}

class PublicJudge final : public StopJudge {
 public:
  explicit PublicJudge(std::shared_ptr<api::StopJudge> judge) : judge_(std::move(judge)) {}

  void judge(StopQuestion question, StopReply reply) override {
    api::StopQuestion asked;
    asked.stream = question.stream;
    asked.number = question.number;
    asked.first = question.first;
    asked.max_new_tokens = question.max_new_tokens;
    for (StopQuestion::Token& token : question.tokens) {
      asked.tokens.push_back({to_public(token.token), std::move(token.text)});
    }
    judge_->judge(std::move(asked), [reply = std::move(reply)](api::StopAnswer answer) {
      reply(to_internal(std::move(answer)));
    });
  }
  void over(SequenceId stream) noexcept override { judge_->over(stream); }

 private:
  std::shared_ptr<api::StopJudge> judge_;
};

StopOptions to_internal(api::StopOptions stop) {
  StopOptions result;
  result.max_new_tokens = stop.max_new_tokens;
  result.min_new_tokens = stop.min_new_tokens;
  result.ignore_end_tokens = stop.ignore_end_tokens;
  result.stop_token_ids = std::move(stop.stop_token_ids);
  result.stop_strings = all_to_internal<StopString>(std::move(stop.stop_strings));
  result.stop_patterns = all_to_internal<StopPattern>(std::move(stop.stop_patterns));
  result.min_confidence = stop.min_confidence;
  result.patience = stop.patience;
  result.repetition_ngram = stop.repetition_ngram;
  result.repetition_times = stop.repetition_times;
  result.time_limit = stop.time_limit;
  result.custom = to_internal(std::move(stop.custom));
  result.judge.judge = embed::to_internal(std::move(stop.judge.judge));
  result.judge.limit = stop.judge.limit;
  result.judge.ignore_failure = stop.judge.ignore_failure;
  result.judge.ahead = stop.judge.ahead;
  return result;
}

}  // namespace

std::shared_ptr<StopJudge> to_internal(std::shared_ptr<api::StopJudge> judge) {
  if (!judge) return nullptr;
  return std::make_shared<PublicJudge>(std::move(judge));
}

GenerateRequest to_internal(api::Request request) {
  GenerateRequest result;
  if (auto* prompt = std::get_if<std::string>(&request.input)) {
    result.input = std::move(*prompt);
  } else {
    result.input = all_to_internal<ChatMessage>(
        std::move(std::get<std::vector<api::ChatMessage>>(request.input)));
  }
  result.chat.add_generation_prompt = request.chat.add_generation_prompt;
  result.chat.tools = std::move(request.chat.tools);
  result.chat.template_options = std::move(request.chat.template_options);
  result.parse_special = request.parse_special;
  result.sampling = to_internal(request.sampling);
  result.seed = request.seed;
  result.stop = to_internal(std::move(request.stop));
  result.salt = std::move(request.salt);
  result.priority = request.priority;
  result.sample_group = request.sample_group;
  return result;
}

StreamChanges to_internal(api::Changes changes) {
  StreamChanges result;
  result.max_new_tokens = changes.max_new_tokens;
  if (changes.stop_strings) {
    result.stop_strings = all_to_internal<StopString>(std::move(*changes.stop_strings));
  }
  if (changes.stop_patterns) {
    result.stop_patterns = all_to_internal<StopPattern>(std::move(*changes.stop_patterns));
  }
  result.temperature = changes.temperature;
  return result;
}

EngineConfig to_internal(const api::Config& config) {
  EngineConfig result;
  result.model = config.model;
  result.plan.context = config.context;
  result.plan.sequences = config.sequences;
  result.plan.memory_limit_bytes = config.memory_limit_bytes;
  result.plan.headroom = config.headroom;
  result.plan.block_size = config.block_size;
  std::tie(result.plan.kv_type_k, result.plan.kv_type_v) =
      parse_kv_types(config.kv_type, "Config::kv_type");
  result.plan.swap_bytes = config.swap_bytes;
  result.plan.swap_file = config.swap_file.string();
  result.threads = config.threads;
  result.precise = config.precise;
  result.prefix_cache = config.prefix_cache;
  result.plan.max_batch_tokens = config.max_batch_tokens;
  result.scheduler.prefill_chunk = config.prefill_chunk;
  result.scheduler.max_running = config.max_running;
  result.scheduler.max_waiting = config.max_waiting;
  result.scheduler.max_waiting_tokens = config.max_waiting_tokens;
  result.scheduler.queue_deadline = config.queue_deadline;
  result.default_max_new_tokens = config.default_max_new_tokens;
  result.credit_window = config.credit_window;
  result.heartbeat_interval = config.heartbeat_interval;
  result.actor_threads = config.actor_threads;
  result.restart = {config.restart.max_restarts, config.restart.window, config.restart.first_pause};
  result.state_dir = config.state_dir;
  return result;
}

}  // namespace sluice::embed
