// Encoder-decoder models through scheduler, KV manager and backend: the answers of the definition,
// whatever happens to the blocks, and an encoder that runs once a sequence.
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/backend/cpu_backend.hpp"
#include "engine/schedule/engine_loop.hpp"
#include "tests/support/t5_model.hpp"

namespace sluice::test {
namespace {

/// Looks at every step before the backend does.
class WatchedBackend final : public Backend {
 public:
  explicit WatchedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  void allocate_pool(const KvPoolShape& shape) override { inner_->allocate_pool(shape); }
  StepResult step(const StepBatch& batch) noexcept override {
    Position encoded = 0;
    bool decoded = false;
    for (const StepSlice& slice : batch.slices) {
      encoded += static_cast<Position>(slice.encoder_input.size());
      if (!slice.encoder_input.empty()) ++encoder_runs;
      decoded = decoded || slice.encoder_input.empty();
    }
    most_encoded = std::max(most_encoded, encoded);
    if (encoded > 0 && decoded) ++mixed_steps;
    return inner_->step(batch);
  }
  BackendMemory memory() const override { return inner_->memory(); }
  std::string description() const override { return inner_->description(); }

  int encoder_runs = 0;       ///< inputs that went through the encoder
  Position most_encoded = 0;  ///< tokens of all inputs of one step
  int mixed_steps = 0;        ///< in which some decode while an input is encoded

 private:
  std::unique_ptr<Backend> inner_;
};

struct Setting {
  KvManagerOptions kv{.num_blocks = 200};
  SchedulerOptions scheduler{.prefill_chunk = 48, .max_encoder_input = 200};
  DType type = DType::kF32;
};

class Machine {
 public:
  Machine(const std::shared_ptr<const ModelSource>& source, const Setting& setting)
      : scheduler(setting.scheduler),
        kv(setting.kv),
        backend(make(source, setting)),
        loop_(backend, scheduler, kv) {
    backend.allocate_pool(pool_for(setting.kv));
  }

  /// Runs until everybody has an answer of its maximum; `arrive[i]`: the step before which request
  /// i comes.
  std::vector<std::vector<TokenId>> answers(const std::vector<SequenceRequest>& requests,
                                            const std::vector<int>& arrive = {}) {
    std::vector<std::vector<TokenId>> answers(requests.size());
    std::size_t ended = 0;
    for (int step = 0; ended < requests.size(); ++step) {
      REQUIRE(step < 5000);
      for (std::size_t i = 0; i < requests.size(); ++i)
        if ((arrive.empty() ? 0 : arrive[i]) == step)
          REQUIRE(scheduler.submit(requests[i], {}) == RejectReason::kNone);
      loop_.run_once([&](const Publication& publication) {
        CAPTURE(publication.message);
        REQUIRE(publication.kind != Publication::Kind::kFailed);
        if (publication.kind != Publication::Kind::kToken) return;
        const auto i = static_cast<std::size_t>(publication.sequence - requests[0].id);
        answers[i].push_back(publication.token.id);
        if (static_cast<Position>(answers[i].size()) < requests[i].max_new_tokens) return;
        scheduler.remove(publication.sequence);
        kv.release(publication.sequence);
        ++ended;
      });
      REQUIRE(scheduler.audit().empty());
      REQUIRE(kv.audit().empty());
    }
    CHECK(kv.stats().used == 0);
    return answers;
  }

  Scheduler scheduler;
  KvManager kv;
  WatchedBackend backend;

 private:
  static std::unique_ptr<Backend> make(const std::shared_ptr<const ModelSource>& source,
                                       const Setting& setting) {
    CpuBackendOptions options;
    options.threads = 2;
    options.precise = true;
    options.kv_type_k = options.kv_type_v = setting.type;
    return make_cpu_backend(source, read_model_config(*source), options);
  }

  EngineLoop loop_;
};

SequenceRequest request_for(SequenceId id, std::vector<TokenId> input, Position answer) {
  SequenceRequest request;
  request.id = id;
  request.prompt = std::move(input);
  request.prompt.push_back(0);  // the decoder's start
  auto sampling = std::make_shared<SamplingParams>();
  sampling->temperature = 0;
  request.sampling = std::move(sampling);
  request.max_new_tokens = answer;
  request.credit = 1000;
  return request;
}

std::vector<TokenId> input_of(std::uint32_t seed, std::size_t length) {
  std::mt19937 random(seed);
  std::vector<TokenId> input = random_tokens(random, length - 1, 60);
  input.push_back(1);
  return input;
}

struct Fixture {
  Fixture() : model(shape()), file(model.gguf_bytes()), source(open_model(file.path())) {}
  static T5Shape shape() {
    T5Shape shape;
    shape.gated = true;
    return shape;
  }
  /// Every token of the answer is the likeliest one by the definition.
  void check_answer(const SequenceRequest& request, const std::vector<TokenId>& answer) const {
    const std::vector<TokenId> input(request.prompt.begin(), request.prompt.end() - 1);
    std::vector<TokenId> read{0};
    read.insert(read.end(), answer.begin(), answer.end() - 1);
    const T5Model::Rows rows = model.logits(input, read);
    for (std::size_t i = 0; i < answer.size(); ++i) {
      const auto best = std::ranges::max_element(rows[i]) - rows[i].begin();
      CAPTURE(i);
      CHECK(answer[i] == best);
    }
  }

  T5Model model;
  TempFile file;
  std::shared_ptr<const ModelSource> source;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "an encoder-decoder says what its definition says") {
  Machine machine(source, {});
  const std::vector<SequenceRequest> requests = {
      request_for(1, input_of(1, 12), 20), request_for(2, input_of(2, 150), 30),
      request_for(3, input_of(3, 1), 15), request_for(4, input_of(4, 90), 25),
      request_for(5, input_of(5, 200), 10)};
  const auto answers = machine.answers(requests, {0, 0, 3, 5, 6});
  for (std::size_t i = 0; i < requests.size(); ++i) check_answer(requests[i], answers[i]);
  CHECK(std::set<std::vector<TokenId>>(answers.begin(), answers.end()).size() == 5);
  // Continuous batching: inputs are encoded while others decode, each once, within the bound.
  CHECK(machine.backend.mixed_steps >= 3);
  CHECK(machine.backend.encoder_runs == 5);
  CHECK(machine.backend.most_encoded <= 200);
}

TEST_CASE_METHOD(Fixture, "a preempted encoder-decoder sequence goes on with the same bits") {
  std::vector<SequenceRequest> requests;
  for (SequenceId id = 1; id <= 4; ++id)
    requests.push_back(request_for(id, input_of(static_cast<std::uint32_t>(id), 20 + 9 * id), 60));
  const auto calm = Machine(source, {}).answers(requests);
  for (const std::int32_t swap : {0, 30}) {
    for (const bool cache : {true, false}) {
      CAPTURE(swap, cache);
      Setting tight;
      tight.kv = {.num_blocks = 16, .prefix_cache = cache, .swap_slots = swap};
      Machine machine(source, tight);
      CHECK(machine.answers(requests) == calm);
      CHECK(machine.scheduler.stats().preemptions > 0);
      if (swap > 0) CHECK(machine.backend.encoder_runs == 4);
      if (swap == 0 && !cache) CHECK(machine.backend.encoder_runs > 4);
    }
  }
}

TEST_CASE_METHOD(Fixture, "blocks are shared only between the same inputs") {
  Machine machine(source, {});
  // The first 64 tokens, four blocks, are the same; what they hold is not.
  std::vector<TokenId> one = input_of(9, 70);
  std::vector<TokenId> other = one;
  other[68] = one[68] == 5 ? 6 : 5;
  const std::vector<SequenceRequest> first = {request_for(1, one, 20)};
  const std::vector<SequenceRequest> second = {request_for(2, other, 20)};
  const auto cold = machine.answers(first);
  const auto hits = machine.kv.stats().prefix_hits_positions;
  const auto answer = machine.answers(second);
  check_answer(second[0], answer[0]);
  CHECK(machine.kv.stats().prefix_hits_positions == hits);
  CHECK(machine.backend.encoder_runs == 2);

  // The same once more: full blocks are found. 70 = 4 blocks and 6 positions, so the encoder runs
  // for these; with 64 positions it does not run at all.
  CHECK(machine.answers({request_for(3, one, 20)}) == cold);
  CHECK(machine.kv.stats().prefix_hits_positions == hits + 64);
  const auto whole = machine.answers({request_for(4, input_of(10, 64), 20)});
  const int runs = machine.backend.encoder_runs;
  CHECK(machine.answers({request_for(5, input_of(10, 64), 20)}) == whole);
  CHECK(machine.backend.encoder_runs == runs);

  // Callers who must not share do not.
  SequenceRequest stranger = request_for(6, input_of(10, 64), 20);
  stranger.salt = "another";
  CHECK(machine.answers({stranger}) == whole);
  CHECK(machine.backend.encoder_runs == runs + 1);
}

TEST_CASE_METHOD(Fixture, "samples of one input are encoded once") {
  Machine machine(source, {});
  std::vector<SequenceRequest> requests;
  for (SequenceId id = 1; id <= 3; ++id) {
    requests.push_back(request_for(id, input_of(11, 50), 20));
    requests.back().sample_group = 7;
    auto sampling = std::make_shared<SamplingParams>();
    sampling->temperature = 1;
    sampling->seed = id;
    requests.back().sampling = std::move(sampling);
  }
  const auto together = machine.answers(requests);
  CHECK(machine.backend.encoder_runs == 1);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SequenceRequest alone = requests[i];
    alone.id = 1;
    CHECK(Machine(source, {}).answers({alone})[0] == together[i]);
  }
}

TEST_CASE_METHOD(Fixture, "penalties of an encoder-decoder look at its output alone") {
  Machine machine(source, {});
  SequenceRequest plain = request_for(1, input_of(12, 40), 30);
  const auto free_answer = machine.answers({plain})[0];
  auto sampling = std::make_shared<SamplingParams>(*plain.sampling);
  sampling->presence_penalty = 2.0F;
  plain.sampling = sampling;
  plain.id = 2;
  // The first token has no history beside the start token, so it stays.
  CHECK(machine.answers({plain})[0].front() == free_answer.front());
}

TEST_CASE_METHOD(Fixture, "inputs that do not fit are refused and waiting ones lose nothing") {
  Setting setting;
  setting.scheduler.max_encoder_input = 60;
  setting.scheduler.token_budget = 64;
  Machine machine(source, setting);
  CHECK(machine.scheduler.submit(request_for(1, input_of(1, 61), 5), {}) ==
        RejectReason::kInputTooLong);
  SequenceRequest empty = request_for(1, {}, 5);
  CHECK(machine.scheduler.submit(empty, {}) == RejectReason::kEmptyPrompt);
  // Three long inputs come at once: one a step, since a step encodes 60 tokens at most.
  const std::vector<SequenceRequest> requests = {request_for(1, input_of(1, 60), 8),
                                                 request_for(2, input_of(2, 59), 8),
                                                 request_for(3, input_of(3, 58), 8)};
  const auto answers = machine.answers(requests);
  CHECK(machine.backend.most_encoded == 60);
  for (std::size_t i = 0; i < requests.size(); ++i) check_answer(requests[i], answers[i]);
}

TEST_CASE_METHOD(Fixture, "a sequence without credit is encoded and waits") {
  Machine machine(source, {});
  SequenceRequest request = request_for(1, input_of(13, 30), 6);
  request.credit = 0;
  REQUIRE(machine.scheduler.submit(request, {}) == RejectReason::kNone);
  EngineLoop loop(machine.backend, machine.scheduler, machine.kv);
  std::vector<TokenId> answer;
  const auto take = [&](const Publication& publication) {
    if (publication.kind == Publication::Kind::kToken) answer.push_back(publication.token.id);
  };
  for (int i = 0; i < 5; ++i) loop.run_once(take);
  CHECK(answer.empty());
  machine.scheduler.add_credit(1, 6);
  while (answer.size() < 6) REQUIRE(loop.run_once(take));
  check_answer(request, answer);
  CHECK(machine.backend.encoder_runs == 1);
}

TEST_CASE_METHOD(Fixture,
                 "random encoder-decoder requests on a small pool answer as they do alone") {
  std::mt19937 random(77);
  std::vector<SequenceRequest> requests;
  std::vector<int> arrive;
  for (SequenceId id = 1; id <= 24; ++id) {
    const auto kind = static_cast<std::uint32_t>(random() % 8);  // some inputs come again
    requests.push_back(
        request_for(id, input_of(kind, 3 + kind * 9), 5 + static_cast<Position>(random() % 40)));
    arrive.push_back(static_cast<int>(random() % 60));
  }
  std::vector<std::vector<TokenId>> alone;
  for (const SequenceRequest& request : requests) {
    SequenceRequest only = request;
    only.id = 1;
    alone.push_back(Machine(source, {}).answers({only})[0]);
  }
  Setting tight;
  tight.kv = {.num_blocks = 22, .swap_slots = 6};
  tight.scheduler.token_budget = 80;
  tight.scheduler.prefill_chunk = 7;
  tight.scheduler.max_encoder_input = 80;
  Machine machine(source, tight);
  CHECK(machine.answers(requests, arrive) == alone);
  CHECK(machine.scheduler.stats().preemptions > 0);
  CHECK(machine.backend.most_encoded <= 80);
}

}  // namespace sluice::test
