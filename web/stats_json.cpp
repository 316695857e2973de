#include "web/stats_json.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "engine/base/json_writer.hpp"

namespace sluice::web {
namespace {

constexpr std::size_t kMaxRuns = 4096;  // of the block map
constexpr std::size_t kMaxSequences = 256;
constexpr std::size_t kMaxSlices = 256;  // of one step

std::string_view phase_name(SequencePhase phase) {
  switch (phase) {
    case SequencePhase::kWaiting:
      return "queued";
    case SequencePhase::kPrefill:
      return "prefill";
    case SequencePhase::kDecode:
      return "decode";
    case SequencePhase::kPaused:
      return "paused";
    case SequencePhase::kAwaitingVerdict:
      return "verdict";
    case SequencePhase::kUnknown:
      break;
  }
  return "unknown";
}

bool same(const KvManager::BlockState& a, const KvManager::BlockState& b) {
  return a.owners == b.owners && a.cached == b.cached && a.first_owner == b.first_owner;
}

/// Runs of equal blocks: [length, owners, first owner's sequence], owners -1 for a free block
/// whose content is findable.
void write_map(JsonWriter& json, const std::vector<KvManager::BlockState>& blocks) {
  json.key("map").begin_array();
  std::size_t runs = 0;
  std::size_t begin = 0;
  while (begin < blocks.size() && runs < kMaxRuns) {
    const KvManager::BlockState& block = blocks[begin];
    std::size_t end = begin + 1;
    while (end < blocks.size() && same(block, blocks[end])) ++end;
    const bool owned = block.owners > 0;
    json.begin_array()
        .value(static_cast<std::uint64_t>(end - begin))
        .value(owned ? block.owners : (block.cached ? -1 : 0))
        .value(owned ? block.first_owner : std::uint64_t{0})
        .end_array();
    begin = end;
    ++runs;
  }
  json.end_array().field("map_left_out", static_cast<std::uint64_t>(blocks.size() - begin));
}

void write_kv(JsonWriter& json, const KvStats& kv, const EngineView& view) {
  json.key("kv")
      .begin_object()
      .field("total", kv.total)
      .field("used", kv.used)
      .field("cached", kv.cached)
      .field("block_size", view.block_size)
      .field("prefix_queries", kv.prefix_queries_positions)
      .field("prefix_hits", kv.prefix_hits_positions)
      .field("evictions", kv.evictions);
  write_map(json, view.blocks);
  json.end_object();
}

void write_sequences(JsonWriter& json, const std::vector<SequenceStatus>& sequences) {
  json.key("sequences").begin_array();
  for (std::size_t i = 0; i < std::min(sequences.size(), kMaxSequences); ++i) {
    const SequenceStatus& sequence = sequences[i];
    json.begin_object()
        .field("sequence", sequence.id)
        .field("phase", phase_name(sequence.phase))
        .field("queue_position", sequence.queue_position)
        .field("computed", sequence.computed)
        .field("total", sequence.total)
        .field("credit", sequence.credit)
        .end_object();
  }
  json.end_array();
}

/// Each slice is [sequence, tokens fed, 1 when it drew a token].
void write_steps(JsonWriter& json, const std::vector<StepView>& steps, std::uint64_t seen_step) {
  json.key("steps").begin_array();
  for (const StepView& step : steps) {
    if (step.number <= seen_step) continue;
    json.begin_object().field("number", step.number);
    json.field("ms", static_cast<double>(step.duration.count()) / 1e6);
    json.key("slices").begin_array();
    for (std::size_t i = 0; i < std::min(step.slices.size(), kMaxSlices); ++i) {
      const StepView::Slice& slice = step.slices[i];
      json.begin_array()
          .value(slice.sequence)
          .value(slice.tokens)
          .value(slice.draws ? 1 : 0)
          .end_array();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

void write_actors(JsonWriter& json, const std::vector<ActorView>& actors) {
  json.key("actors").begin_array();
  for (const ActorView& actor : actors) {
    json.begin_object()
        .field("name", actor.name)
        .field("mailbox", static_cast<std::uint64_t>(actor.mailbox));
    if (actor.sequence != 0) json.field("sequence", actor.sequence);
    if (actor.busy) json.field("busy", true);
    json.end_object();
  }
  json.end_array();
}

}  // namespace

std::string stats_fields(const EngineStats& stats, const EngineView& view,
                         std::uint64_t seen_step) {
  JsonWriter json;
  json.begin_object()
      .field("waiting", stats.scheduler.waiting)
      .field("running", stats.scheduler.running)
      .field("step", stats.scheduler.steps)
      .field("prompt_tokens", stats.scheduler.prompt_tokens)
      .field("generated_tokens", stats.scheduler.generated_tokens)
      .field("preemptions", stats.scheduler.preemptions);
  write_kv(json, stats.kv, view);
  write_sequences(json, view.sequences);
  write_steps(json, view.steps, seen_step);
  write_actors(json, view.actors);
  json.end_object();
  const std::string& object = json.str();
  return object.substr(1, object.size() - 2);
}

EngineView without_others(EngineView view, const std::set<SequenceId>& own) {
  for (KvManager::BlockState& block : view.blocks) {
    if (!own.contains(block.first_owner)) block.first_owner = 0;
  }
  std::erase_if(view.sequences,
                [&](const SequenceStatus& sequence) { return !own.contains(sequence.id); });
  std::erase_if(view.actors, [&](const ActorView& actor) {
    return actor.sequence != 0 && !own.contains(actor.sequence);
  });
  for (StepView& step : view.steps) {
    StepView::Slice others{};
    std::erase_if(step.slices, [&](const StepView::Slice& slice) {
      if (own.contains(slice.sequence)) return false;
      others.tokens += slice.tokens;
      others.draws = others.draws || slice.draws;
      return true;
    });
    if (others.tokens > 0) step.slices.push_back(others);
  }
  return view;
}

}  // namespace sluice::web
