#include "engine/kv/memory_plan.hpp"

#include <simdjson.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "engine/base/error.hpp"
#include "engine/kv/model_shape.hpp"

namespace sluice {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kGiB = 1024 * kMiB;

ModelConfig seven_b() {
  return parse_shape("layers=32,hidden=4096,heads=32,context=4096");
}

PlanRequest request(std::int32_t sequences, std::size_t limit) {
  PlanRequest request;
  request.sequences = sequences;
  request.memory_limit_bytes = limit;
  return request;
}

std::string message_of(const ModelConfig& config, std::size_t weights, const PlanRequest& request,
                       ErrorCode code) {
  try {
    make_plan(config, weights, request);
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  FAIL("the plan was accepted");
  return {};
}

}  // namespace

TEST_CASE("the figures of the 7B class are exact") {
  PlanRequest eight = request(8, 64 * kGiB);
  eight.context = 4096;
  const MemoryPlan plan = make_plan(seven_b(), 14 * kGiB, eight);
  CHECK(plan.kv_bytes_per_token_layer == 16 * kKiB);
  CHECK(plan.kv_bytes_per_token == 512 * kKiB);
  CHECK(plan.kv_bytes_per_token * 4096 == 2 * kGiB);
  CHECK(plan.kv_pool_bytes == 16 * kGiB);
  CHECK(plan.num_blocks == 8 * 256);
  CHECK(plan.sequences == 8);
  CHECK(plan.weights_bytes == 14 * kGiB);
  CHECK(plan.binding == PlanLimit::kModelContext);
  CHECK(plan.max_context_one_sequence == 4096);
  CHECK(plan.total_bytes() + plan.headroom_bytes <= plan.limit_bytes);
  const std::string table = plan_table(plan, seven_b());
  for (const char* part : {"16 KiB", "512 KiB", "2 GiB", "16 GiB", "14 GiB", "2048 blocks",
                           "32768 positions", "64 GiB", "K f16, V f16"}) {
    INFO(table);
    CHECK(table.find(part) != std::string::npos);
  }
}

TEST_CASE("KV types have their sizes") {
  PlanRequest asked = request(1, 64 * kGiB);
  const auto per_token = [&](DType k, DType v) {
    asked.kv_type_k = k;
    asked.kv_type_v = v;
    return static_cast<double>(make_plan(seven_b(), 0, asked).kv_bytes_per_token);
  };
  const double f16 = per_token(DType::kF16, DType::kF16);
  CHECK(per_token(DType::kF32, DType::kF32) == 2 * f16);
  CHECK(per_token(DType::kQ8_0, DType::kQ8_0) / f16 == Approx(34.0 / 64.0));
  CHECK(per_token(DType::kF16, DType::kQ8_0) / f16 == Approx(0.5 + 17.0 / 64.0));
  CHECK(per_token(DType::kQ4_0, DType::kQ4_0) / f16 == Approx(18.0 / 64.0));
  asked.kv_layers = {{0, 7, DType::kF16, DType::kF16}};
  CHECK(per_token(DType::kQ8_0, DType::kQ8_0) / f16 == Approx(0.25 + 0.75 * 34.0 / 64.0));
}

TEST_CASE("grouped heads shrink the KV and nothing else") {
  const ModelConfig grouped = parse_shape("layers=32,hidden=4096,heads=32,kv-heads=8,context=8192");
  const MemoryPlan plan = make_plan(grouped, 0, request(1, 64 * kGiB));
  CHECK(plan.kv_bytes_per_token == 128 * kKiB);
  CHECK(plan.context == 8192);
}

TEST_CASE("sequences follow from memory when nobody says how many") {
  // 40 GiB less 12 percent less 14 GiB of weights less scratch: ten sequences of 2 GiB.
  PlanRequest asked = request(0, 40 * kGiB);
  MemoryPlan plan = make_plan(seven_b(), 14 * kGiB, asked);
  CHECK(plan.sequences == 10);
  CHECK(plan.binding == PlanLimit::kMemory);
  CHECK(plan.total_bytes() + plan.headroom_bytes <= plan.limit_bytes);
  asked.memory_limit_bytes = 400 * kGiB;
  plan = make_plan(seven_b(), 14 * kGiB, asked);
  CHECK(plan.sequences == 16);
  CHECK(plan.binding == PlanLimit::kModelContext);
  asked.context = 1000;
  plan = make_plan(seven_b(), 14 * kGiB, asked);
  CHECK(plan.num_blocks == 16 * 63);
  CHECK(plan.binding == PlanLimit::kRequest);
  CHECK(plan.max_context_one_sequence == 4096);
}

TEST_CASE("a context nobody asked for is cut to what fits") {
  const ModelConfig long_model = parse_shape("layers=32,hidden=4096,heads=32,context=131072");
  PlanRequest asked = request(0, 24 * kGiB);
  const MemoryPlan plan = make_plan(long_model, 14 * kGiB, asked);
  CHECK(plan.sequences == 1);
  CHECK(plan.context < 16384);
  CHECK(plan.context > 8192);
  CHECK(plan.binding == PlanLimit::kMemory);
  CHECK(plan.total_bytes() + plan.headroom_bytes <= plan.limit_bytes);
}

TEST_CASE("what does not fit is refused with settings that do") {
  PlanRequest asked = request(8, 24 * kGiB);
  asked.context = 4096;
  const std::string message = message_of(seven_b(), 14 * kGiB, asked, ErrorCode::kDoesNotFit);
  INFO(message);
  CHECK(message.find("8 sequences of 4096 positions") != std::string::npos);
  CHECK(message.find("what fits: 3 sequences of 4096 positions, or 8 sequences of 1") !=
        std::string::npos);
  // Both ways fit indeed, and one more of either does not.
  asked.sequences = 3;
  CHECK(make_plan(seven_b(), 14 * kGiB, asked).sequences == 3);
  asked.sequences = 4;
  message_of(seven_b(), 14 * kGiB, asked, ErrorCode::kDoesNotFit);
  const std::string eight = "or 8 sequences of ";
  const int shorter = std::stoi(message.substr(message.find(eight) + eight.size()));
  asked.sequences = 8;
  asked.context = shorter;
  CHECK(make_plan(seven_b(), 14 * kGiB, asked).context == shorter);
  asked.context = shorter + 1;
  message_of(seven_b(), 14 * kGiB, asked, ErrorCode::kDoesNotFit);
}

TEST_CASE("weights larger than memory are refused with the memory they need") {
  const std::string message =
      message_of(seven_b(), 14 * kGiB, request(0, 8 * kGiB), ErrorCode::kDoesNotFit);
  INFO(message);
  const std::size_t at = message.find("at least ");
  REQUIRE(at != std::string::npos);
  CHECK(std::stod(message.substr(at + 9)) > 14.0 / 0.88);
}

TEST_CASE("settings that contradict the model are refused") {
  const std::size_t limit = 64 * kGiB;
  const auto refused = [&](auto change) {
    PlanRequest asked = request(1, limit);
    change(asked);
    CHECK_FALSE(message_of(seven_b(), 0, asked, ErrorCode::kInvalidArgument).empty());
  };
  refused([](PlanRequest& r) { r.context = 4097; });
  refused([](PlanRequest& r) { r.context = -1; });
  refused([](PlanRequest& r) { r.sequences = -1; });
  refused([](PlanRequest& r) { r.block_size = 0; });
  refused([](PlanRequest& r) { r.headroom = 1.0; });
  refused([](PlanRequest& r) { r.headroom = -0.1; });
  refused([](PlanRequest& r) { r.max_batch_tokens = 0; });
  refused([](PlanRequest& r) { r.kv_layers = {{30, 32, DType::kF16, DType::kF16}}; });
  PlanRequest asked = request(1, limit);
  asked.kv_type_v = DType::kQ5_0;
  CHECK(message_of(seven_b(), 0, asked, ErrorCode::kUnsupported).find("q5_0") != std::string::npos);
}

TEST_CASE("enormous settings do not overflow") {
  PlanRequest asked = request(2'000'000'000, 64 * kGiB);
  asked.context = 4096;
  CHECK(message_of(seven_b(), 14 * kGiB, asked, ErrorCode::kDoesNotFit).find("EiB") !=
        std::string::npos);
  const ModelConfig vast =
      parse_shape("layers=10000,hidden=1000000,heads=10000,context=1000000000");
  asked = request(0, 64 * kGiB);
  CHECK(message_of(vast, 0, asked, ErrorCode::kDoesNotFit).find("EiB") != std::string::npos);
}

TEST_CASE("bytes are written with three digits or whole") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(512 * kKiB) == "512 KiB");
  CHECK(format_bytes(2 * kGiB) == "2 GiB");
  CHECK(format_bytes(2 * kGiB + kMiB) == "2.00 GiB");
  CHECK(format_bytes(1536) == "1.50 KiB");
  CHECK(format_bytes(12 * kMiB + 300 * kKiB) == "12.3 MiB");
  CHECK(format_bytes(kMiB - 1) == "1.00 MiB");
  CHECK(format_bytes(9 * kMiB + 1023 * kKiB) == "10.0 MiB");
  CHECK(format_bytes(99 * kMiB + 1023 * kKiB) == "100 MiB");
  CHECK(format_bytes(~std::size_t{0}) == "16.0 EiB");
}

TEST_CASE("available memory heeds the machine and its control groups") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("sluice-memory-" + std::to_string(getpid()));
  const auto write = [&](const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\nBuffers: 1 kB\n");
  CHECK(available_memory_bytes(root) == 8000 * kKiB);
  write("proc/self/cgroup", "0::/pod/box\n");
  write("sys/fs/cgroup/pod/box/memory.max", "max\n");
  CHECK(available_memory_bytes(root) == 8000 * kKiB);
  write("sys/fs/cgroup/pod/box/memory.max", "5000000\n");
  write("sys/fs/cgroup/pod/box/memory.current", "3000000\n");
  write("sys/fs/cgroup/pod/box/memory.stat", "anon 1000000\ninactive_file 1500000\n");
  CHECK(available_memory_bytes(root) == 3500000);
  // The group above is tighter still; then used up.
  write("sys/fs/cgroup/pod/memory.max", "2000000\n");
  CHECK(available_memory_bytes(root) == 2000000);
  write("sys/fs/cgroup/pod/memory.current", "2500000\n");
  CHECK(available_memory_bytes(root) == 0);
  fs::remove_all(root);
  CHECK(available_memory_bytes() > 0);
}

TEST_CASE("the plan as JSON says what the plan says") {
  const MemoryPlan plan = make_plan(seven_b(), 14 * kGiB, request(8, 64 * kGiB));
  simdjson::dom::parser parser;
  const simdjson::padded_string text(plan_json(plan, seven_b()));
  const simdjson::dom::element json = parser.parse(text);
  CHECK(std::uint64_t{json["kv_pool_bytes"]} == 16 * kGiB);
  CHECK(std::uint64_t{json["total_bytes"]} == plan.total_bytes());
  CHECK(std::string_view{json["binding"]} == "model_context");
  CHECK(std::string_view{json["kv_type_k"]} == "f16");
}

TEST_CASE("a shape is read from text") {
  const ModelConfig config = seven_b();
  CHECK(config.num_layers == 32);
  CHECK(config.num_kv_heads == 32);
  CHECK(config.head_dim == 128);
  CHECK(config.ffn_size == 11008);
  CHECK(config.vocab_size == 32000);
  // 6 738 415 616 weights, as published for this shape; norms are in f32.
  const std::size_t norms = 65 * 4096;
  CHECK(estimate_weights_bytes(config, DType::kF16) == (6'738'415'616 - norms) * 2 + norms * 4);
  CHECK(estimate_weights_bytes(config, DType::kQ8_0) < 7'300'000'000);
  for (const char* bad :
       {"", "layers", "layers=32", "layers=32,hidden=4096,heads=32,", "layers=0,hidden=8,heads=1",
        "layers=3,hidden=10,heads=4", "layers=3,hidden=8,heads=4,kv-heads=3",
        "layers=3,layers=4,hidden=8,heads=4", "layers=3x,hidden=8,heads=4",
        "layers=-3,hidden=8,heads=4", "layers=99999999999,hidden=8,heads=4",
        "layers=3,hidden=8,heads=4,colour=7", "layers=3,hidden=8,heads=4,tied=2"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_shape(bad), Error);
  }
}

}  // namespace sluice
