// Does a model take what its plan says? A child process loads one, fills its whole pool, runs the
// largest steps, and says by how much its resident memory has grown.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/cpu_backend.hpp"
#include "engine/backend/weight_packer.hpp"
#include "engine/kv/memory_plan.hpp"
#include "engine/schedule/engine_loop.hpp"
#include "tests/support/gguf_writer.hpp"

namespace sluice::test {
namespace {

constexpr std::uint32_t kLayers = 4;
constexpr std::uint32_t kHidden = 256;
constexpr std::uint32_t kHeads = 8;
constexpr std::uint32_t kHeadDim = 64;
constexpr std::uint32_t kFfn = 512;
constexpr std::uint32_t kVocab = 100'000;
constexpr Position kContext = 128;
constexpr std::int32_t kSequences = 64;

enum class WeightType : std::uint32_t { kF16 = 1, kQ8_0 = 8 };

/// A half between 2^-7 and 2^-6, either sign.
std::uint16_t small_half(std::uint64_t i) {
  const std::uint64_t mixed = (i + 1) * 0x9E3779B97F4A7C15U;
  return static_cast<std::uint16_t>(0x2000U | (mixed >> 54U) | ((mixed >> 20U & 1U) << 15U));
}

void add_matrix(GgufWriter& writer, WeightType type, const std::string& name, std::uint64_t columns,
                std::uint64_t rows) {
  std::string bytes;
  const auto put_half = [&](std::uint16_t half) {
    bytes.push_back(static_cast<char>(half & 0xFFU));
    bytes.push_back(static_cast<char>(half >> 8U));
  };
  for (std::uint64_t i = 0; i < columns * rows; ++i) {
    if (type == WeightType::kF16) {
      put_half(small_half(i));
      continue;
    }
    if (i % 32 == 0) put_half(0x0A00);  // scale: about 2^-13
    bytes.push_back(static_cast<char>(i * 0x9E3779B97F4A7C15U >> 56U));
  }
  writer.add_tensor(name, {columns, rows}, static_cast<std::uint32_t>(type), bytes);
}

/// A model of some 30 to 60 MB, most of it embeddings: much memory, little work.
TempFile write_model(WeightType type) {
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_u32("llama.block_count", kLayers);
  writer.add_u32("llama.context_length", 1024);
  writer.add_u32("llama.embedding_length", kHidden);
  writer.add_u32("llama.feed_forward_length", kFfn);
  writer.add_u32("llama.attention.head_count", kHeads);
  writer.add_u32("llama.attention.head_count_kv", kHeads);
  writer.add_u32("llama.attention.key_length", kHeadDim);
  writer.add_u32("llama.attention.value_length", kHeadDim);
  writer.add_u32("llama.rope.dimension_count", kHeadDim);
  writer.add_u32("llama.vocab_size", kVocab);
  writer.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  const std::vector<float> ones(kHidden, 1.0F);
  add_matrix(writer, type, "token_embd.weight", kHidden, kVocab);
  writer.add_f32_tensor("output_norm.weight", {kHidden}, ones);
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    writer.add_f32_tensor(layer + "attn_norm.weight", {kHidden}, ones);
    writer.add_f32_tensor(layer + "ffn_norm.weight", {kHidden}, ones);
    add_matrix(writer, type, layer + "attn_q.weight", kHidden, kHeads * kHeadDim);
    add_matrix(writer, type, layer + "attn_k.weight", kHidden, kHeads * kHeadDim);
    add_matrix(writer, type, layer + "attn_v.weight", kHidden, kHeads * kHeadDim);
    add_matrix(writer, type, layer + "attn_output.weight", kHeads * kHeadDim, kHidden);
    add_matrix(writer, type, layer + "ffn_gate.weight", kHidden, kFfn);
    add_matrix(writer, type, layer + "ffn_up.weight", kHidden, kFfn);
    add_matrix(writer, type, layer + "ffn_down.weight", kFfn, kHidden);
  }
  return writer.write_temp();
}

/// Resident bytes, anonymous and of mapped files.
std::size_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::size_t sum = 0;
  for (std::string word; status >> word;) {
    if (word != "RssAnon:" && word != "RssFile:") continue;
    std::size_t kib = 0;
    status >> kib;
    sum += kib * 1024;
  }
  return sum;
}

struct Measured {
  std::size_t planned = 0;
  std::size_t grown = 0;
};

/// Loads, fills the pool and measures.
Measured load_and_fill(const std::filesystem::path& file) {
  const std::size_t before = resident_bytes();
  const auto source = open_model(file);
  const ModelConfig config = read_model_config(*source);
  PlanRequest request;
  request.context = kContext;
  request.sequences = kSequences;
  request.threads = 2;
  request.memory_limit_bytes = std::size_t{4} << 30;
  const MemoryPlan plan = make_plan(config, resident_weights_bytes(*source, false), request);

  CpuBackendOptions options;
  options.threads = 2;
  CpuBackend backend(source, config, options);
  KvManagerOptions kv_options = kv_manager_options(plan);
  kv_options.admission_watermark = 0.0;
  backend.allocate_pool(pool_for(kv_options));
  KvManager kv(kv_options);
  SchedulerOptions scheduling;
  scheduling.max_running = kSequences;
  scheduling.prefill_chunk = kContext;
  Scheduler scheduler(scheduling);
  EngineLoop loop(backend, scheduler, kv);
  SamplingParams sampling;
  sampling.temperature = 1.0F;
  for (SequenceId id = 1; id <= kSequences; ++id) {
    SequenceRequest sequence;
    sequence.id = id;
    for (Position i = 0; i < kContext - 1; ++i) {
      // Few different ones: rows that are looked up in a packed model's file come on top of the
      // plan, 64 KiB around each, as memory that the system can take back at any time.
      sequence.prompt.push_back(
          static_cast<TokenId>((id * 131 + static_cast<SequenceId>(i)) % 997));
    }
    sequence.sampling = std::make_shared<const SamplingParams>(sampling);
    sequence.max_new_tokens = 2;
    sequence.credit = 0;
    scheduler.submit(std::move(sequence), {});
  }
  for (SequenceId id = 1; id <= kSequences; ++id) scheduler.add_credit(id, 1);
  int ended = 0;
  while (ended < kSequences) {
    const bool active = loop.run_once([&](const Publication& publication) {
      if (publication.kind == Publication::Kind::kToken) ++ended;
    });
    if (!active) break;
  }
  // All draw in the same step.
  for (SequenceId id = 1; id <= kSequences; ++id) scheduler.add_credit(id, 1);
  while (loop.run_once([](const Publication&) {})) {
  }
  return {plan.total_bytes(), resident_bytes() - before};
}

/// What `measure` finds in a process of its own.
template <class Measure>
Measured in_child(Measure measure) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Measured measured{1, std::numeric_limits<std::size_t>::max()};
    try {
      measured = measure();
    } catch (const std::exception&) {
      // The numbers that can't be right say so.
    }
    const bool written = write(ends[1], &measured, sizeof measured) == sizeof measured;
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  Measured measured;
  CHECK(read(ends[0], &measured, sizeof measured) == sizeof measured);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  return measured;
}

}  // namespace

TEST_CASE("resident memory is within five percent of the plan") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  WARN("skipped: a sanitizer's own memory would be measured");
#else
  for (const WeightType type : {WeightType::kF16, WeightType::kQ8_0}) {
    const TempFile model = write_model(type);
    const Measured measured = in_child([&] { return load_and_fill(model.path()); });
    const double ratio =
        static_cast<double>(measured.grown) / static_cast<double>(measured.planned);
    WARN("planned " << format_bytes(measured.planned) << ", grown by "
                    << format_bytes(measured.grown));
    CHECK(measured.planned > (std::size_t{100} << 20));
    CHECK(ratio > 0.95);
    CHECK(ratio < 1.05);
  }
#endif
}

}  // namespace sluice::test
