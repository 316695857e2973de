// Groups of layers, budgets, and the blocks that a plan gives them.
#include "engine/kv/kv_layout.hpp"

#include <catch2/catch.hpp>

#include "engine/base/error.hpp"
#include "engine/kv/memory_plan.hpp"
#include "engine/kv/model_shape.hpp"

namespace sluice {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;

PlanRequest request(Position context, std::int32_t sequences, std::size_t memory = 64 * kGiB) {
  PlanRequest request;
  request.context = context;
  request.sequences = sequences;
  request.memory_limit_bytes = memory;
  return request;
}

std::string message_of(const ModelConfig& config, const PlanRequest& request) {
  try {
    make_plan(config, 0, request);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// 12 layers of 1 KiB a token each, of which every sixth sees everything, the others 512.
ModelConfig windowed() {
  return parse_shape(
      "layers=12,hidden=1024,heads=8,kv-heads=2,context=32768,window=512,full-every=6");
}

}  // namespace

TEST_CASE("layers that see the same form a group and the one that sees everything is first") {
  const std::vector<KvLayerGroup> groups = kv_layer_groups(windowed());
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].visibility == KvVisibility{});
  CHECK(groups[0].layers == std::vector<std::int32_t>{5, 11});
  CHECK(groups[1].visibility == KvVisibility{512, 0});
  CHECK(groups[1].layers.size() == 10);
  CHECK(kv_layer_groups(parse_shape("layers=3,hidden=64,heads=2")).size() == 1);
  // A window as wide as the context hides nothing.
  CHECK(kv_layer_groups(parse_shape("layers=3,hidden=64,heads=2,context=512,window=512"))[0]
            .visibility == KvVisibility{});
}

TEST_CASE("the worked example of budgets") {
  ModelConfig config = parse_shape("layers=4,hidden=64,heads=2,window=32,full-every=2");
  KvBudget budget;
  budget.layers = {{.positions = 64}};
  const std::vector<KvLayerGroup> groups = kv_layer_groups(with_budget(config, budget));
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].visibility == KvVisibility{32, 0});
  CHECK(groups[0].layers == std::vector<std::int32_t>{0, 2});
  CHECK(groups[1].visibility == KvVisibility{60, 4});
  CHECK(longest_under(config, budget) == 0);

  budget.policy = KvBudgetPolicy::kRefuse;
  CHECK(kv_layer_groups(with_budget(config, budget))[0].visibility == KvVisibility{});
  CHECK(longest_under(config, budget) == 64);
  PlanRequest asked = request(0, 1);
  asked.budget = budget;
  CHECK(make_plan(config, 0, asked).context == 64);
}

TEST_CASE("of several budgets for a layer the last counts") {
  KvBudget budget;
  budget.layers = {{.positions = 100},
                   parse_kv_layer_budget("1-2=50", "--x"),
                   parse_kv_layer_budget("2=70", "--x")};
  CHECK(budget.of_layer(0) == 100);
  CHECK(budget.of_layer(1) == 50);
  CHECK(budget.of_layer(2) == 70);
  CHECK(budget.of_layer(3) == 100);
}

TEST_CASE("budgets that can not work are refused") {
  const ModelConfig config = parse_shape("layers=4,hidden=64,heads=2");
  for (const char* text : {"", "3", "1-=4", "a=5", "1-2=x", "1=", "-1=5", "1-2-3=4"}) {
    CHECK_THROWS_AS(parse_kv_layer_budget(text, "--kv-budget-layer"), Error);
  }
  KvBudget budget;
  for (const KvLayerBudget& entry : {KvLayerBudget{0, 4, 50}, {3, 2, 50}, {0, 1, 4}, {-1, 1, 50}}) {
    budget.layers = {entry};
    CHECK_THROWS_AS(with_budget(config, budget), Error);
  }
}

TEST_CASE("a plan counts windows") {
  const ModelConfig config = windowed();
  const MemoryPlan plan = make_plan(config, 0, request(32768, 4));
  REQUIRE(plan.groups.size() == 2);
  CHECK(plan.kv_bytes_per_token_layer == 1024);
  CHECK(plan.kv_bytes_per_token == 12 * 1024);
  CHECK(plan.groups[0].num_blocks == 4 * 2048);
  // 32 blocks of window and one more, for four; 512 tokens of a step; 2 % kept free.
  CHECK(plan.groups[1].num_blocks >= 4 * 33 + 32);
  CHECK(plan.groups[1].num_blocks <= 4 * 33 + 32 + 8);
  CHECK(plan.kv_pool_bytes ==
        16 * 1024 *
            (2 * std::size_t{8192} + 10 * static_cast<std::size_t>(plan.groups[1].num_blocks)));
  CHECK(plan.max_context_one_sequence == 32768);
  CHECK(plan.group_of_layer == std::vector<std::int32_t>{1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0});
  const KvManagerOptions options = kv_manager_options(plan);
  CHECK(options.num_blocks == 8192);
  REQUIRE(options.more_groups.size() == 1);
  CHECK(options.more_groups[0].visibility == KvVisibility{512, 0});
}

TEST_CASE("what a plan promises is admitted") {
  for (const std::int32_t sequences : {1, 3, 16}) {
    const MemoryPlan plan = make_plan(windowed(), 0, request(4096, sequences));
    KvManager kv(kv_manager_options(plan));
    // All but one hold everything they ever will; the last one can still come.
    for (SequenceId id = 1; id <= static_cast<SequenceId>(sequences); ++id) {
      const std::vector<TokenId> tokens(2000, static_cast<TokenId>(id));
      REQUIRE(kv.admit(id, tokens, "").verdict == KvAdmission::Verdict::kAdmitted);
      for (Position done = 0; done < 4096; done += 256) {
        REQUIRE(kv.reserve(id, done + 256));
        kv.commit(id, std::vector<TokenId>(256, static_cast<TokenId>(id)));
      }
    }
    CHECK(kv.audit() == "");
  }
}

TEST_CASE("swap space is shared as the pool is") {
  PlanRequest asked = request(32768, 4);
  asked.swap_bytes = make_plan(windowed(), 0, asked).kv_pool_bytes / 2;
  const MemoryPlan plan = make_plan(windowed(), 0, asked);
  CHECK(plan.groups[0].swap_slots == 4096);
  CHECK(plan.groups[1].swap_slots == plan.groups[1].num_blocks / 2);
  CHECK(plan.total_bytes() == plan.scratch_bytes + plan.kv_pool_bytes + asked.swap_bytes);
  asked.swap_file = "/tmp/some";
  CHECK(make_plan(windowed(), 0, asked).total_bytes() == plan.total_bytes() - asked.swap_bytes);
}

TEST_CASE("a plan that does not fit names settings that do") {
  const ModelConfig config = parse_shape("layers=32,hidden=4096,heads=32,context=8192");
  PlanRequest asked = request(8192, 4, 12 * kGiB);  // 16 GiB of KV
  const std::string message = message_of(config, asked);
  CHECK(message.find("2 sequences of 8192") != std::string::npos);
  CHECK(message.find("--kv-type q8_0") != std::string::npos);
  const std::size_t at = message.find("--memory ");
  REQUIRE(at != std::string::npos);
  // What it names works: memory in whole GiB, or a smaller type.
  const auto gib = static_cast<std::size_t>(std::stoi(message.substr(at + 9)));
  CHECK(message.substr(at + 9).find("GiB") == std::to_string(gib).size());
  CHECK(make_plan(config, 0, request(8192, 4, gib * kGiB)).sequences == 4);
  CHECK_THROWS_AS(make_plan(config, 0, request(8192, 4, (gib - 1) * kGiB)), Error);
  asked.kv_type_k = asked.kv_type_v = DType::kQ8_0;
  CHECK(make_plan(config, 0, asked).sequences == 4);
}

TEST_CASE("a measured scratch takes the place of the bound") {
  const ModelConfig config = windowed();
  PlanRequest asked = request(4096, 1);
  asked.measured_scratch_bytes = 12345;
  const MemoryPlan plan = make_plan(config, 0, asked);
  CHECK(plan.scratch_bytes == 12345);
  CHECK(plan.scratch_measured);
  CHECK(plan_table(plan, config).find("measured") != std::string::npos);
}

}  // namespace sluice
