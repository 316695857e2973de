#include "web/openai/refused_fields.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace sluice::web::openai {
namespace {

/// Notes for the operator of a service; they say nothing about the answer.
constexpr std::array<std::string_view, 7> kIgnored{"user",
                                                   "safety_identifier",
                                                   "metadata",
                                                   "store",
                                                   "service_tier",
                                                   "prompt_cache_key",
                                                   "prompt_cache_retention"};

constexpr std::array<std::string_view, 8> kRefused{
    "functions",          "function_call", "audio",      "prediction",
    "web_search_options", "verbosity",     "moderation", "suffix"};

void refuse_formats(ObjectReader& fields) {
  const auto value = fields.find("response_format");
  if (!value) return;
  simdjson::dom::object object;
  std::string_view type;
  const bool text = value->get(object) == simdjson::SUCCESS &&
                    object["type"].get(type) == simdjson::SUCCESS && type == "text";
  if (!text) fields.fail("`response_format` must be {\"type\": \"text\"}: nothing else is done.");
}

void refuse_modalities(ObjectReader& fields) {
  const auto value = fields.find("modalities");
  if (!value) return;
  simdjson::dom::array array;
  std::string_view only;
  const bool text = value->get(array) == simdjson::SUCCESS && array.size() == 1 &&
                    array.at(0).get(only) == simdjson::SUCCESS && only == "text";
  if (!text) fields.fail("`modalities` must be [\"text\"]: nothing else is done.");
}

}  // namespace

void refuse_what_is_not_done(ObjectReader& fields) {
  for (const std::string_view name : kIgnored) fields.find(name);
  for (const std::string_view name : kRefused) {
    if (fields.find(name)) fields.fail(fmt::format("`{}` is not supported.", name));
  }
  refuse_formats(fields);
  refuse_modalities(fields);
  bool parallel = true;  // what a model does with its tools, it decides
  fields.boolean("parallel_tool_calls", parallel);
}

}  // namespace sluice::web::openai
