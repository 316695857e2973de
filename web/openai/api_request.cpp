#include "web/openai/api_request.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "web/json_reader.hpp"
#include "web/openai/chat_fields.hpp"
#include "web/openai/json_body.hpp"
#include "web/openai/refused_fields.hpp"
#include "web/stop_fields.hpp"

namespace sluice::web::openai {
namespace {

using simdjson::dom::element;

constexpr std::size_t kAnyLength = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kMaxSaltBytes = 256;
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kMaxBiases = 1024;

/// Token ids as names: {"42": -100}.
void read_logit_bias(ObjectReader& fields, SamplingParams& sampling) {
  const auto value = fields.find("logit_bias");
  if (!value) return;
  simdjson::dom::object object;
  if (value->get(object) != simdjson::SUCCESS) {
    return fields.mismatch("logit_bias", "an object from token ids to numbers", *value);
  }
  for (const auto& [name, bias] : object) {
    LogitBias entry;
    double number = 0.0;
    const auto end = name.data() + name.size();
    const auto read = std::from_chars(name.data(), end, entry.token);
    const bool is_id = read.ec == std::errc() && read.ptr == end && entry.token >= 0;
    if (!is_id || !bias.is_number() || bias.get(number) != simdjson::SUCCESS || number < -100.0 ||
        number > 100.0) {
      return fields.fail(
          "`logit_bias` must map token ids to numbers from -100 to 100, e.g. {\"42\": -100}.");
    }
    entry.bias = static_cast<float>(number);
    sampling.logit_bias.push_back(entry);
    if (sampling.logit_bias.size() > kMaxBiases) {
      return fields.fail(fmt::format("`logit_bias` may hold at most {} entries.", kMaxBiases));
    }
  }
}

/// Any whole number of 64 bits, also a negative one.
void read_seed(ObjectReader& fields, std::optional<std::uint64_t>& seed) {
  const auto value = fields.find("seed");
  if (!value) return;
  std::uint64_t positive = 0;
  std::int64_t number = 0;
  if (value->get(positive) == simdjson::SUCCESS) {
    seed = positive;
  } else if (value->get(number) == simdjson::SUCCESS) {
    seed = static_cast<std::uint64_t>(number);
  } else {
    fields.mismatch("seed", "a whole number of 64 bits", *value);
  }
}

void read_sampling(ObjectReader& fields, GenerateRequest& request) {
  SamplingParams& sampling = request.sampling;
  fields.number("temperature", 0, 10, sampling.temperature);
  fields.integer("top_k", 0, kMaxInt, sampling.top_k);
  fields.number("top_p", 0, 1, sampling.top_p);
  if (sampling.top_p <= 0.0F) fields.fail("`top_p` must be above 0 and at most 1, not 0.");
  fields.number("min_p", 0, 1, sampling.min_p);
  fields.number("repetition_penalty", 0.01, 10, sampling.repetition_penalty);
  fields.number("presence_penalty", -2, 2, sampling.presence_penalty);
  fields.number("frequency_penalty", -2, 2, sampling.frequency_penalty);
  read_logit_bias(fields, sampling);
  read_seed(fields, request.seed);
}

/// `max_completion_tokens` is the newer name of `max_tokens`.
void read_maximum(ObjectReader& fields, StopOptions& stop) {
  Position newer = 0;
  fields.integer("max_completion_tokens", 1, kMaxInt, newer);
  if (newer == 0) return;
  if (stop.max_new_tokens && *stop.max_new_tokens != newer) {
    return fields.fail("`max_completion_tokens` and `max_tokens` contradict each other.");
  }
  stop.max_new_tokens = newer;
}

void read_stream(ObjectReader& fields, ApiRequest& request) {
  fields.boolean("stream", request.stream);
  const auto value = fields.find("stream_options");
  if (!value) return;
  simdjson::dom::object object;
  if (value->get(object) != simdjson::SUCCESS) {
    return fields.mismatch("stream_options", "an object", *value);
  }
  if (!request.stream) return fields.fail("`stream_options` goes with `stream` only.");
  ObjectReader options(object, "stream_options.", ObjectReader::Nulls::kAbsent);
  options.boolean("include_usage", request.include_usage);
  bool obfuscation = false;
  options.boolean("include_obfuscation", obfuscation);
  options.finish();
  if (options.failed()) fields.fail(options.error());
}

void check_model(ObjectReader& fields, const ApiDefaults& defaults,
                 std::optional<ApiError>& error) {
  std::string model;
  fields.text("model", 0, kAnyLength, model);
  if (fields.failed() || model.empty() || model == defaults.model) return;
  error = ApiError{.status = 404,
                   .message = fmt::format("`model`: there is no \"{}\" here, only \"{}\".", model,
                                          defaults.model),
                   .param = "model",
                   .code = "model_not_found"};
}

/// All that the two kinds of request have in common.
void read_common(ObjectReader& fields, const ApiDefaults& defaults, ApiRequest& request,
                 GenerateRequest& generate) {
  generate.sampling = defaults.sampling;
  read_sampling(fields, generate);
  read_stop_options(fields, generate.stop);
  read_maximum(fields, generate.stop);
  fields.text("salt", 0, kMaxSaltBytes, generate.salt);
  fields.integer("priority", -1000, 1000, generate.priority);
  fields.integer("n", 1, static_cast<std::int64_t>(defaults.max_choices), request.n);
  read_stream(fields, request);
  refuse_what_is_not_done(fields);
}

void read_chat_logprobs(ObjectReader& fields, ApiRequest& request, SamplingParams& sampling) {
  fields.boolean("logprobs", request.logprobs);
  fields.integer("top_logprobs", 0, 20, sampling.num_top_logprobs);
  if (sampling.num_top_logprobs > 0 && !request.logprobs) {
    fields.fail("`top_logprobs` goes with `logprobs`: true.");
  }
}

void read_old_logprobs(ObjectReader& fields, ApiRequest& request, SamplingParams& sampling) {
  const auto value = fields.find("logprobs");
  if (!value) return;
  fields.integer("logprobs", 0, 20, sampling.num_top_logprobs);
  request.logprobs = true;
}

/// A string or an array of strings.
void read_prompts(ObjectReader& fields, const GenerateRequest& common, ApiRequest& request) {
  const auto value = fields.find("prompt");
  if (!value) return fields.fail("`prompt` is missing; send a text to continue.");
  const auto add = [&](std::string_view text) {
    request.prompts.push_back(common);
    request.prompts.back().input = std::string(text);
  };
  std::string_view text;
  simdjson::dom::array array;
  if (value->get(text) == simdjson::SUCCESS) return add(text);
  if (value->get(array) != simdjson::SUCCESS) {
    return fields.mismatch("prompt", "a string or an array of strings", *value);
  }
  for (const element item : array) {
    if (item.get(text) != simdjson::SUCCESS) {
      return fields.mismatch("prompt", "a string or an array of strings", item);
    }
    add(text);
  }
  if (request.prompts.empty()) fields.fail("`prompt` must hold at least one text.");
}

template <class ReadRest>
ParsedRequest parse(std::string_view text, const ApiDefaults& defaults, ReadRest read_rest) {
  JsonBody body;
  if (auto error = parse_body(text, body)) return std::move(*error);
  ObjectReader fields(body.object, "", ObjectReader::Nulls::kAbsent);
  ApiRequest request;
  GenerateRequest common;
  std::optional<ApiError> other;
  check_model(fields, defaults, other);
  read_common(fields, defaults, request, common);
  read_rest(fields, request, common);
  fields.finish();
  if (!fields.failed() && request.num_choices() > defaults.max_choices) {
    fields.fail(fmt::format("`n`: a request may have at most {} answers.", defaults.max_choices));
  }
  if (fields.failed()) return invalid_request(fields.error());
  if (other) return std::move(*other);
  return request;
}

}  // namespace

ParsedRequest parse_chat_request(std::string_view body, const ApiDefaults& defaults) {
  return parse(body, defaults, [](ObjectReader& fields, ApiRequest& request, GenerateRequest& one) {
    read_chat_logprobs(fields, request, one.sampling);
    read_chat(fields, one);
    request.prompts.push_back(std::move(one));
  });
}

ParsedRequest parse_completion_request(std::string_view body, const ApiDefaults& defaults) {
  return parse(body, defaults, [](ObjectReader& fields, ApiRequest& request, GenerateRequest& one) {
    request.chat = false;
    read_old_logprobs(fields, request, one.sampling);
    read_prompts(fields, one, request);
    std::int32_t best_of = request.n;
    fields.integer("best_of", request.n, request.n, best_of);
    bool echo = false;
    fields.boolean("echo", echo);
    if (echo) fields.fail("`echo` is not supported; put the prompt before the answer yourself.");
  });
}

}  // namespace sluice::web::openai
