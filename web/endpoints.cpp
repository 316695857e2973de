#include "web/endpoints.hpp"

#include <chrono>
#include <string_view>

#include "engine/base/json_writer.hpp"
#include "engine/kv/plan_json.hpp"
#include "web/event_json.hpp"
#include "web/metrics.hpp"
#include "web/stop_rule_list.hpp"

namespace sluice::web {
namespace {

HttpResponse json_response(JsonWriter& json, int status = 200) {
  HttpResponse response;
  response.status = status;
  response.body = json.take();
  response.headers = {{"Cache-Control", "no-store"}};
  return response;
}

HttpResponse status_response(std::string_view status, int code) {
  JsonWriter json;
  json.begin_object().field("status", status).end_object();
  return json_response(json, code);
}

/// The rules in force, in the order in which they are tried.
void write_stop_policy(JsonWriter& json, const ServiceInfo& info, const DefaultMaximum& maximum) {
  json.begin_object().key("order").begin_array();
  for (const StopRule rule : all_stop_rules()) {
    json.value(sluice::name(rule));
  }
  json.end_array()
      .field("max_tokens_default", maximum.tokens)
      .field("max_tokens_default_from", maximum.observed ? "answers" : "configuration")
      .field("answers_counted", maximum.samples);
  json.key("end_tokens").begin_array();
  for (const std::string& token : info.end_tokens) json.value(token);
  json.end_array().end_object();
}

HttpResponse plan_response(const ServiceInfo& info, const DefaultMaximum& maximum) {
  JsonWriter json;
  json.begin_object()
      .field("model", info.model_name)
      .field("summary", info.model_summary)
      .field("backend", info.backend)
      .field("tokenizer", info.tokenizer)
      .field("chat_template", info.chat_template)
      .field("context_length", info.context_length);
  json.key("plan").begin_object();
  write_plan_fields(json, info.plan);
  json.end_object();
  json.key("stop_policy");
  write_stop_policy(json, info, maximum);
  json.end_object();
  return json_response(json);
}

HttpResponse models_response(const ServiceInfo& info, std::int64_t created) {
  JsonWriter json;
  json.begin_object().field("object", "list").key("data").begin_array();
  json.begin_object()
      .field("id", info.model_name)
      .field("object", "model")
      .field("created", created)
      .field("owned_by", "sluice")
      .field("summary", info.model_summary)
      .field("context_length", info.context_length)
      .end_object();
  json.end_array().end_object();
  return json_response(json);
}

}  // namespace

void add_endpoints(Router& router, const EndpointSources& sources) {
  const StreamService& service = sources.service;
  const Counters& counters = sources.counters;
  const StreamHub& hub = sources.hub;
  const std::int64_t created = std::chrono::duration_cast<std::chrono::seconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count();

  // Alive means: this thread answers. It asks nobody.
  router.add("GET", "/health", [](const HttpRequest&) { return status_response("ok", 200); });
  router.add("GET", "/ready", [&service, stopping = sources.stopping](const HttpRequest&) {
    if (stopping()) return status_response("stopping", 503);
    return service.stats().ready ? status_response("ready", 200)
                                 : status_response("not_ready", 503);
  });
  router.add("GET", "/metrics", [&service, &counters, &hub](const HttpRequest&) {
    HttpResponse response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    const EngineStats engine = service.stats();
    const HubStats streams = hub.stats();
    response.body = metrics_text({.info = service.info(),
                                  .engine = engine,
                                  .streams = streams,
                                  .server = counters,
                                  .devices = service.devices(),
                                  .process = process_usage()});
    response.headers = {{"Cache-Control", "no-store"}};
    return response;
  });
  router.add("GET", "/v1/plan", [&service](const HttpRequest&) {
    return plan_response(service.info(), default_maximum(service));
  });
  router.add("GET", "/v1/models", [&service, created](const HttpRequest&) {
    return models_response(service.info(), created);
  });
}

bool is_probe(std::string_view path) {
  return path == "/health" || path == "/ready";
}

}  // namespace sluice::web
