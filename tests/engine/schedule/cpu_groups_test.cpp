// Models with windows on pools that free what has fallen out of them: the same tokens as with
// everything kept, in a fraction of the blocks, through preemption, swap, samples and the prefix
// cache.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/cpu_backend.hpp"
#include "engine/kv/kv_layout.hpp"
#include "engine/kv/memory_plan.hpp"
#include "engine/schedule/engine_loop.hpp"
#include "tests/support/shared_data.hpp"

namespace sluice::test {
namespace {

namespace fs = std::filesystem;

constexpr Position kPrompt = 150;
constexpr Position kAnswer = 40;

/// A model on a pool, driven without actors.
class Machine {
 public:
  Machine(std::shared_ptr<const ModelSource> source, const ModelConfig& config, KvManagerOptions kv,
          std::vector<std::int32_t> group_of_layer, DType type = DType::kF32,
          const std::string& swap_file = "")
      : kv_(kv) {
    CpuBackendOptions options;
    options.threads = 2;
    options.kv_type_k = options.kv_type_v = type;
    backend_ = std::make_unique<CpuBackend>(std::move(source), config, options);
    KvPoolShape pool = pool_for(kv);
    pool.group_of_layer = std::move(group_of_layer);
    pool.swap_file = swap_file;
    backend_->allocate_pool(pool);
    SchedulerOptions scheduling;
    scheduling.prefill_chunk = 48;
    scheduler_ = std::make_unique<Scheduler>(scheduling);
    loop_ = std::make_unique<EngineLoop>(*backend_, *scheduler_, kv_);
  }

  std::vector<TokenId> generate(const SequenceRequest& request) {
    std::vector<TokenId> tokens;
    for (const SampledToken& token : loop_->generate(request)) tokens.push_back(token.id);
    CHECK(kv_.audit() == "");
    return tokens;
  }

  /// All of them at the same time.
  std::vector<std::vector<TokenId>> generate_all(const std::vector<SequenceRequest>& requests) {
    std::vector<std::vector<TokenId>> tokens(requests.size());
    for (const SequenceRequest& request : requests) {
      REQUIRE(scheduler_->submit(request, {}) == RejectReason::kNone);
    }
    std::size_t ended = 0;
    int steps = 0;
    while (ended < requests.size()) {
      REQUIRE(++steps < 5000);
      loop_->run_once([&](const Publication& publication) {
        REQUIRE(publication.kind != Publication::Kind::kFailed);
        if (publication.kind != Publication::Kind::kToken) return;
        const auto i = static_cast<std::size_t>(publication.sequence - requests[0].id);
        tokens[i].push_back(publication.token.id);
        if (static_cast<Position>(tokens[i].size()) < requests[i].max_new_tokens) return;
        scheduler_->remove(publication.sequence);
        kv_.release(publication.sequence);
        ++ended;
      });
      REQUIRE(kv_.audit() == "");
    }
    return tokens;
  }

  KvStats stats() const { return kv_.stats(); }
  SchedulerStats scheduler_stats() const { return scheduler_->stats(); }

 private:
  KvManager kv_;
  std::unique_ptr<CpuBackend> backend_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<EngineLoop> loop_;
};

SequenceRequest request_for(const ModelConfig& config, SequenceId id, Position prompt = kPrompt) {
  SequenceRequest request;
  request.id = id;
  for (Position i = 0; i < prompt; ++i) {
    request.prompt.push_back(static_cast<TokenId>((id * 31 + static_cast<SequenceId>(i * i) + 3) %
                                                  static_cast<SequenceId>(config.vocab_size)));
  }
  request.max_new_tokens = kAnswer;
  request.credit = kAnswer;
  return request;
}

KvManagerOptions whole_pool() {
  KvManagerOptions options;
  options.num_blocks = 200;
  options.prefix_cache = false;
  return options;
}

/// The groups as a plan makes them, for so many sequences.
MemoryPlan plan_for(const ModelConfig& config, std::int32_t sequences) {
  PlanRequest request;
  request.context = kPrompt + kAnswer;
  request.sequences = sequences;
  request.kv_type_k = request.kv_type_v = DType::kF32;
  request.prefill_chunk = 48;
  request.max_batch_tokens = 48;
  request.memory_limit_bytes = std::size_t{8} << 30;
  return make_plan(config, 0, request);
}

void check_model(const fs::path& file) {
  INFO(file.string());
  const auto source = open_model(file);
  ModelConfig config = read_model_config(*source);
  config.context_length = std::max(config.context_length, kPrompt + kAnswer);
  Machine whole(source, config, whole_pool(), {});
  std::vector<SequenceRequest> requests;
  std::vector<std::vector<TokenId>> expected;
  for (SequenceId id = 1; id <= 4; ++id) {
    requests.push_back(request_for(config, id));
    expected.push_back(whole.generate(requests.back()));
  }
  const MemoryPlan plan = plan_for(config, 2);
  for (const std::int32_t swap_slots : {0, 60}) {
    KvManagerOptions options = kv_manager_options(plan);
    options.swap_slots = swap_slots;
    for (KvGroup& group : options.more_groups) group.swap_slots = swap_slots;
    Machine small(source, config, options, plan.group_of_layer);
    CHECK(small.generate(requests[0]) == expected[0]);
    CHECK(small.stats().trimmed > 0);
    // Hot: what is cached of the prompt is used as far as the windows allow.
    CHECK(small.generate(requests[0]) == expected[0]);
    CHECK(small.stats().prefix_hits_positions > 0);
    // Four sequences in a pool for two.
    CHECK(small.generate_all(requests) == expected);
    CHECK(small.stats().used == 0);
  }
}

}  // namespace

TEST_CASE("windowed models give the same tokens when their windows free blocks") {
  const auto folder = shared_dir("reference/models");
  if (!folder) return;
  int models = 0;
  for (const char* name : {"gemma2", "gemma3", "cohere2", "olmo3", "gpt-oss"}) {
    for (const auto& entry : fs::directory_iterator(*folder / name)) {
      if (entry.path().extension() != ".gguf") continue;
      const ModelConfig config = read_model_config(*open_model(entry.path()));
      bool windows = false;
      for (std::int32_t i = 0; i < config.num_layers; ++i) windows |= config.window(i) > 0;
      if (!windows) continue;
      check_model(entry.path());
      ++models;
      break;
    }
  }
  CHECK(models >= 4);
}

TEST_CASE("a trimmed budget gives the same tokens however early blocks are freed") {
  const auto folder = shared_dir("models");
  if (!folder) return;
  const auto source = open_model(*folder / "stories260K.gguf");
  KvBudget budget;
  budget.layers = {{.positions = 60}, {.first_layer = 1, .last_layer = 2, .positions = 90}};
  ModelConfig unlimited = read_model_config(*source);
  unlimited.context_length = kPrompt + kAnswer;
  const ModelConfig config = with_budget(unlimited, budget);
  Machine whole(source, config, whole_pool(), {});
  const SequenceRequest request = request_for(config, 1);
  const std::vector<TokenId> expected = whole.generate(request);
  const MemoryPlan plan = plan_for(config, 1);
  REQUIRE(plan.groups.size() == 2);
  Machine small(source, config, kv_manager_options(plan), plan.group_of_layer);
  CHECK(small.generate(request) == expected);
  CHECK(small.stats().trimmed > 0);
  // It is another model than without the budget.
  Machine all(source, unlimited, whole_pool(), {});
  CHECK(all.generate(request) != expected);
}

TEST_CASE("samples copy blocks of every KV type") {
  const auto folder = shared_dir("models");
  if (!folder) return;
  const auto source = open_model(*folder / "stories260K.gguf");
  const ModelConfig config = read_model_config(*source);
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0}) {
    std::vector<SequenceRequest> samples;
    std::vector<std::vector<TokenId>> expected;
    Machine alone(source, config, whole_pool(), {}, type);
    for (SequenceId id = 1; id <= 3; ++id) {
      samples.push_back(request_for(config, 1, 70));
      samples.back().id = id;
      samples.back().sample_group = 9;
      SamplingParams sampling;
      sampling.temperature = 1.0F;
      sampling.seed = 40 + id;
      samples.back().sampling = std::make_shared<const SamplingParams>(sampling);
      expected.push_back(alone.generate(samples.back()));
    }
    CHECK(expected[0] != expected[1]);
    Machine together(source, config, whole_pool(), {}, type);
    CHECK(together.generate_all(samples) == expected);
    CHECK(together.stats().copies == 2);
    CHECK(together.scheduler_stats().prompt_tokens == 70 + 2);
    // In a pool that is too small they come and go through swap.
    KvManagerOptions tight = whole_pool();
    tight.num_blocks = 11;
    tight.swap_slots = 20;
    for (const bool in_file : {false, true}) {
      const fs::path file = fs::temp_directory_path() / ("sluice-swap-" + std::to_string(getpid()));
      Machine swapping(source, config, tight, {}, type, in_file ? file.string() : "");
      CHECK(swapping.generate_all(samples) == expected);
      CHECK(swapping.stats().swapped_out > 0);
      CHECK_FALSE(fs::exists(file));
    }
  }
}

TEST_CASE("a swap file that can not be made is an error that names it") {
  const auto folder = shared_dir("models");
  if (!folder) return;
  const auto source = open_model(*folder / "stories260K.gguf");
  const ModelConfig config = read_model_config(*source);
  KvManagerOptions options = whole_pool();
  options.swap_slots = 4;
  // A file that is there already is somebody's.
  for (const char* place : {"/nowhere/at/all", "/etc/passwd"}) {
    CHECK_THROWS_WITH(Machine(source, config, options, {}, DType::kF16, place),
                      Catch::Contains(place));
  }
}

TEST_CASE("a move of a block that is not there ends the backend") {
  const auto folder = shared_dir("models");
  if (!folder) return;
  const auto source = open_model(*folder / "stories260K.gguf");
  CpuBackend backend(source, read_model_config(*source), {});
  backend.allocate_pool({4, 16});
  using Kind = BlockMove::Kind;
  for (const BlockMove& move : {BlockMove{Kind::kCopy, 0, 0, 4}, BlockMove{Kind::kCopy, 0, -1, 0},
                                BlockMove{Kind::kCopy, 1, 0, 1}, BlockMove{Kind::kSwapOut, 0, 0, 0},
                                BlockMove{Kind::kSwapIn, 0, 0, 0}}) {
    StepBatch batch;
    batch.moves = {move};
    CHECK_FALSE(backend.step(batch).fatal.empty());
  }
  StepBatch batch;
  batch.moves = {{Kind::kCopy, 0, 3, 1}};
  CHECK(backend.step(batch).fatal.empty());
}

}  // namespace sluice::test
