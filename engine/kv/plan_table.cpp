// The memory plan as people and programs read it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "engine/base/json_writer.hpp"
#include "engine/kv/memory_plan.hpp"
#include "engine/kv/plan_json.hpp"

namespace sluice {

std::string format_bytes(std::size_t bytes) {
  constexpr std::array<std::string_view, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  std::size_t scale = 1;
  while (unit + 1 < kUnits.size() && bytes / scale >= 1024) {
    scale *= 1024;
    ++unit;
  }
  if (bytes % scale == 0) return fmt::format("{} {}", bytes / scale, kUnits[unit]);
  double value = static_cast<double>(bytes) / static_cast<double>(scale);
  if (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  // What rounds to 10 or 100 has three digits with one decimal fewer.
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

namespace {

std::string_view limit_name(PlanLimit limit) {
  switch (limit) {
    case PlanLimit::kRequest:
      return "request";
    case PlanLimit::kMemory:
      return "memory";
    case PlanLimit::kModelContext:
      return "model_context";
  }
  return "";
}

std::string_view limit_sentence(PlanLimit limit) {
  switch (limit) {
    case PlanLimit::kRequest:
      return "the settings: there is memory left for more";
    case PlanLimit::kMemory:
      return "memory: with more, more or longer sequences would fit";
    case PlanLimit::kModelContext:
      return "the model's context: there is memory left for more sequences";
  }
  return "";
}

/// "32 blocks", "1 block".
std::string counted(std::int64_t n, std::string_view one) {
  return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s");
}

struct Row {
  std::string label;
  std::string value;
  std::string note;
};

/// "sees all", "sees 32 positions", "sees the first 4 and 60 positions".
std::string what_it_sees(const KvVisibility& sees) {
  if (sees.window <= 0) return "see everything";
  if (sees.keep_first <= 0) return "see " + counted(sees.window, "position");
  return fmt::format("see the first {} and the last {} positions", sees.keep_first, sees.window);
}

/// Pool and swap space; with several groups a row each.
void add_pool_rows(std::vector<Row>& rows, const MemoryPlan& plan) {
  rows.push_back(
      {"KV pool", format_bytes(plan.kv_pool_bytes),
       fmt::format("{} of {} = {}", counted(plan.num_blocks, "block"),
                   counted(plan.block_size, "position"),
                   counted(std::int64_t{plan.num_blocks} * plan.block_size, "position"))});
  const bool windows = !plan.groups.empty() && plan.groups.front().visibility.window > 0;
  if (plan.groups.size() > 1 || windows) rows.back().note.clear();
  for (const PlanGroup& group : plan.groups) {
    if (plan.groups.size() == 1 && !windows) break;
    const auto block_bytes = group.bytes_per_token * static_cast<std::size_t>(plan.block_size);
    rows.push_back(
        {fmt::format("  {}", counted(group.num_layers, "layer")),
         format_bytes(static_cast<std::size_t>(group.num_blocks) * block_bytes),
         fmt::format("{} of {}; {}", counted(group.num_blocks, "block"),
                     counted(plan.block_size, "position"), what_it_sees(group.visibility))});
  }
  if (plan.swap_bytes == 0) return;
  rows.push_back({"swap space", format_bytes(plan.swap_bytes),
                  plan.swap_file.empty() ? "for preempted sequences"
                                         : "on disk, in " + plan.swap_file + "; not in the total"});
}

std::vector<Row> rows_of(const MemoryPlan& plan, const ModelConfig& config) {
  const std::string types =
      fmt::format("K {}, V {}, {} x {} elements each", traits(plan.kv_type_k).name,
                  traits(plan.kv_type_v).name, config.num_kv_heads, config.head_dim);
  const std::string layers =
      counted(config.num_layers, "layer") +
      (plan.kv_layers.empty() ? ""
                              : "; " + describe({plan.kv_type_k, plan.kv_type_v, plan.kv_layers}));
  const std::size_t left =
      plan.limit_bytes - std::min(plan.limit_bytes, plan.total_bytes() + plan.headroom_bytes);
  std::vector<Row> rows{
      {"weights", format_bytes(plan.weights_bytes), ""},
      {"scratch", format_bytes(plan.scratch_bytes),
       plan.scratch_measured ? "measured with the largest step"
                             : "activations and logits of the largest step"},
  };
  add_pool_rows(rows, plan);
  const std::vector<Row> rest{
      {"total", format_bytes(plan.total_bytes()),
       fmt::format("of a limit of {}", format_bytes(plan.limit_bytes))},
      {"headroom", format_bytes(plan.headroom_bytes), "left alone"},
      {"unplanned", format_bytes(left), ""},
      {},
      {"KV per token and layer", format_bytes(plan.kv_bytes_per_token_layer), types},
      {"KV per token", format_bytes(plan.kv_bytes_per_token), layers},
      {"KV per sequence", format_bytes(plan.kv_bytes_per_sequence),
       fmt::format("at {}", counted(plan.context, "position"))},
      {},
      {"context", fmt::format("{}", plan.context),
       fmt::format("positions; the model allows {}", config.context_length)},
      {"sequences", fmt::format("{}", plan.sequences), "at that context at the same time"},
      {"one sequence alone", fmt::format("{}", plan.max_context_one_sequence), "positions at most"},
      {"what binds", std::string(limit_sentence(plan.binding)), ""},
  };
  rows.insert(rows.end(), rest.begin(), rest.end());
  // A position of the input holds the K and V that cross-attention reads, of the same size.
  if (config.has_encoder())
    rows.push_back({"encoder's input", fmt::format("{}", config.encoder.max_input),
                    "tokens at most, a KV position each, kept as long as the sequence"});
  return rows;
}

}  // namespace

std::string plan_table(const MemoryPlan& plan, const ModelConfig& config) {
  const std::vector<Row> rows = rows_of(plan, config);
  std::size_t label_width = 0;
  std::size_t value_width = 0;
  for (const Row& row : rows) {
    label_width = std::max(label_width, row.label.size());
    // A sentence does not push the numbers aside.
    if (row.value.size() <= 12) value_width = std::max(value_width, row.value.size());
  }
  std::string table = fmt::format("Memory plan: {} ({}, {}, hidden {}, {} heads, {} KV heads)\n",
                                  config.name.empty() ? "model" : config.name, config.architecture,
                                  counted(config.num_layers, "layer"), config.hidden_size,
                                  config.num_heads, config.num_kv_heads);
  for (const Row& row : rows) {
    if (row.value.size() <= 12) {
      table += fmt::format("  {:<{}}  {:>{}}", row.label, label_width, row.value, value_width);
    } else {
      table += fmt::format("  {:<{}}  {}", row.label, label_width, row.value);
    }
    if (!row.note.empty()) table += "  " + row.note;
    table.erase(table.find_last_not_of(' ') + 1);
    table += '\n';
  }
  return table;
}

void write_plan_fields(JsonWriter& json, const MemoryPlan& plan) {
  json.field("limit_bytes", plan.limit_bytes)
      .field("headroom_bytes", plan.headroom_bytes)
      .field("weights_bytes", plan.weights_bytes)
      .field("scratch_bytes", plan.scratch_bytes)
      .field("kv_bytes_per_token_layer", plan.kv_bytes_per_token_layer)
      .field("kv_bytes_per_token", plan.kv_bytes_per_token)
      .field("kv_bytes_per_sequence", plan.kv_bytes_per_sequence)
      .field("kv_pool_bytes", plan.kv_pool_bytes)
      .field("swap_bytes", plan.swap_bytes)
      .field("total_bytes", plan.total_bytes())
      .field("block_size", plan.block_size)
      .field("num_blocks", plan.num_blocks)
      .field("context", plan.context)
      .field("sequences", plan.sequences)
      .field("max_context_one_sequence", plan.max_context_one_sequence)
      .field("binding", limit_name(plan.binding));
  json.key("groups").begin_array();
  for (const PlanGroup& group : plan.groups) {
    json.begin_object()
        .field("layers", group.num_layers)
        .field("window", group.visibility.window)
        .field("keep_first", group.visibility.keep_first)
        .field("bytes_per_token", group.bytes_per_token)
        .field("num_blocks", group.num_blocks)
        .field("swap_slots", group.swap_slots)
        .end_object();
  }
  json.end_array();
}

std::string plan_json(const MemoryPlan& plan, const ModelConfig& config) {
  JsonWriter json;
  json.begin_object()
      .field("model", config.name)
      .field("architecture", config.architecture)
      .field("layers", config.num_layers)
      .field("kv_heads", config.num_kv_heads)
      .field("head_dim", config.head_dim)
      .field("model_context", config.context_length)
      .field("encoder_layers", config.encoder.num_layers)
      .field("max_encoder_input", config.encoder.max_input)
      .field("kv_type_k", traits(plan.kv_type_k).name)
      .field("kv_type_v", traits(plan.kv_type_v).name);
  json.key("kv_layers").begin_array();
  for (const KvLayerTypes& entry : plan.kv_layers) {
    json.begin_object()
        .field("first", entry.first_layer)
        .field("last", entry.last_layer)
        .field("kv_type_k", traits(entry.type_k).name)
        .field("kv_type_v", traits(entry.type_v).name)
        .end_object();
  }
  json.end_array();
  write_plan_fields(json, plan);
  json.end_object();
  return json.take();
}

}  // namespace sluice
