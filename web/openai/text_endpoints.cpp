#include "web/openai/text_endpoints.hpp"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/json_writer.hpp"
#include "engine/stream/utf8_accumulator.hpp"
#include "web/openai/api_error.hpp"
#include "web/openai/chat_fields.hpp"
#include "web/openai/json_body.hpp"

namespace sluice::web::openai {
namespace {

using simdjson::dom::element;

constexpr std::size_t kAnyLength = std::numeric_limits<std::uint32_t>::max();

HttpResponse json_response(JsonWriter& json) {
  HttpResponse response;
  response.body = json.take();
  response.headers = {{"Cache-Control", "no-store"}};
  return response;
}

HttpResponse no_tokenizer() {
  return to_response({.status = 503,
                      .type = "server_error",
                      .message = "This service has no tokenizer to ask.",
                      .code = "not_ready"});
}

HttpResponse tokens_response(const std::vector<TokenId>& tokens, Position context_length) {
  JsonWriter json;
  json.begin_object()
      .field("count", static_cast<std::uint64_t>(tokens.size()))
      .field("max_model_len", context_length)
      .key("tokens")
      .begin_array();
  for (const TokenId token : tokens) json.value(token);
  json.end_array().end_object();
  return json_response(json);
}

HttpResponse tokenize(const HttpRequest& request, const StreamService& service) {
  const auto tokenizer = service.tokenizer();
  if (!tokenizer) return no_tokenizer();
  JsonBody body;
  if (const auto error = parse_body(request.body, body)) return to_response(*error);
  ObjectReader fields(body.object, "", ObjectReader::Nulls::kAbsent);
  std::string model;
  std::string prompt;
  bool add_special = true;
  GenerateRequest chat;
  fields.text("model", 0, kAnyLength, model);
  const bool is_chat = fields.find("messages").has_value();
  if (is_chat) {
    read_chat(fields, chat);
  } else {
    fields.text("prompt", 0, kAnyLength, prompt);
    if (!fields.find("prompt")) fields.fail("`prompt` or `messages` is missing.");
    fields.boolean("add_special_tokens", add_special);
  }
  fields.finish();
  if (fields.failed()) return to_response(invalid_request(fields.error()));
  const Position context = service.info().context_length;
  if (!is_chat)
    return tokens_response(tokenizer->encode(prompt, {.add_special = add_special}), context);
  try {
    return tokens_response(service.prompt_tokens(chat), context);
  } catch (const Error& error) {
    return to_response(invalid_request(error.what()));
  }
}

std::vector<TokenId> read_tokens(ObjectReader& fields, std::size_t vocab_size) {
  std::vector<TokenId> tokens;
  const auto value = fields.find("tokens");
  simdjson::dom::array array;
  if (!value || value->get(array) != simdjson::SUCCESS) {
    fields.fail("`tokens` must be an array of token ids.");
    return tokens;
  }
  for (const element item : array) {
    std::int64_t id = -1;
    if (item.get(id) != simdjson::SUCCESS || id < 0 ||
        id >= static_cast<std::int64_t>(vocab_size)) {
      fields.mismatch(fmt::format("tokens[{}]", tokens.size()),
                      fmt::format("a token id from 0 to {}", vocab_size - 1), item);
      return tokens;
    }
    tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

HttpResponse detokenize(const HttpRequest& request, const StreamService& service) {
  const auto tokenizer = service.tokenizer();
  if (!tokenizer) return no_tokenizer();
  JsonBody body;
  if (const auto error = parse_body(request.body, body)) return to_response(*error);
  ObjectReader fields(body.object, "", ObjectReader::Nulls::kAbsent);
  std::string model;
  fields.text("model", 0, kAnyLength, model);
  const std::vector<TokenId> tokens = read_tokens(fields, tokenizer->vocab_size());
  fields.finish();
  if (fields.failed()) return to_response(invalid_request(fields.error()));
  JsonWriter json;
  json.begin_object().field("prompt", to_valid_utf8(tokenizer->decode(tokens, false))).end_object();
  return json_response(json);
}

}  // namespace

void add_text_endpoints(Router& router, const StreamService& service) {
  for (const char* path : {"/tokenize", "/v1/tokenize"}) {
    router.add("POST", path, [&service](const HttpRequest& r) { return tokenize(r, service); });
  }
  for (const char* path : {"/detokenize", "/v1/detokenize"}) {
    router.add("POST", path, [&service](const HttpRequest& r) { return detokenize(r, service); });
  }
  // POST is answered before the router is asked.
  const auto never = [](const HttpRequest&) {
    return to_response({.status = 500, .type = "server_error", .message = "Not answered here."});
  };
  router.add("POST", "/v1/chat/completions", never);
  router.add("POST", "/v1/completions", never);
}

}  // namespace sluice::web::openai
