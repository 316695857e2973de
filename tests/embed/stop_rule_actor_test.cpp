// A stop rule as an actor of the embedding program: against the same rule as a function, when it
// dies, when it is slow, and with neighbours that must not notice.
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/send.hpp>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "actors/engine.hpp"
#include "embed/convert.hpp"
#include "sluice/caf.hpp"
#include "tests/support/scripted_engine.hpp"
#include "tests/support/stream_log.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

using RuleFunction = std::function<std::optional<v0::CustomEnd>(std::string_view, Position)>;

/// What the rules of a test were told, from any thread.
struct Told {
  std::mutex mutex;
  std::set<SequenceId> over;
  std::size_t questions = 0;
  std::size_t num_over() {
    const std::lock_guard lock(mutex);
    return over.size();
  }
  std::size_t num_questions() {
    const std::lock_guard lock(mutex);
    return questions;
  }
};

struct RuleOptions {
  RuleFunction rule = [](std::string_view, Position) { return std::nullopt; };
  int dies_at_question = 0;   ///< of all; 0: never
  int fails_at_question = 0;  ///< likewise, with an exception
  int promises_from = 0;      ///< from this question on it only promises an answer; 0: never
};

/// Keeps the text of each stream and asks the function.
class Rule final : public caf::typed_event_based_actor<
                       caf::replies_to<v0::judge_atom, v0::StopQuestion>::with<v0::StopAnswer>,
                       caf::reacts_to<v0::over_atom, SequenceId>> {
 public:
  Rule(caf::actor_config& config, RuleOptions options, std::shared_ptr<Told> told)
      : typed_event_based_actor(config), options_(std::move(options)), told_(std::move(told)) {}

 protected:
  behavior_type make_behavior() override {
    set_exception_handler(
        [](std::exception_ptr&) -> caf::error { return caf::exit_reason::unhandled_exception; });
    return {
        [this](v0::judge_atom, const v0::StopQuestion& question) -> caf::result<v0::StopAnswer> {
          return judge(question);
        },
        [this](v0::over_atom, SequenceId stream) {
          texts_.erase(stream);
          const std::lock_guard lock(told_->mutex);
          told_->over.insert(stream);
        },
    };
  }
  void on_exit() override { promises_.clear(); }

 private:
  caf::result<v0::StopAnswer> judge(const v0::StopQuestion& question) {
    {
      const std::lock_guard lock(told_->mutex);
      ++told_->questions;
    }
    ++questions_;
    if (questions_ == options_.dies_at_question) {
      quit(caf::exit_reason::kill);
      return make_response_promise<v0::StopAnswer>();
    }
    if (questions_ == options_.fails_at_question) throw std::runtime_error("a rule that fails");
    if (options_.promises_from > 0 && questions_ >= options_.promises_from) {
      return promises_.emplace_back(make_response_promise<v0::StopAnswer>());
    }
    auto& [text, count] = texts_[question.stream];
    if (question.first != count + 1) throw std::runtime_error("a token was lost");
    v0::StopAnswer answer;
    for (const v0::StopQuestion::Token& token : question.tokens) {
      text += token.text;
      answer.ends.push_back(options_.rule(text, ++count));
    }
    return answer;
  }

  RuleOptions options_;
  std::shared_ptr<Told> told_;
  int questions_ = 0;
  std::map<SequenceId, std::pair<std::string, Position>> texts_;
  std::vector<caf::typed_response_promise<v0::StopAnswer>> promises_;
};

/// The embedding program: an actor system of its own with one rule.
class Program {
 public:
  explicit Program(RuleOptions options = {})
      : system_(config_),
        rule_(system_.spawn<Rule>(std::move(options), told)),
        judge(embed::to_internal(v0::make_stop_judge(rule_))) {}
  ~Program() {
    judge.reset();
    end_rule();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  void end_rule() { caf::anon_send_exit(rule_, caf::exit_reason::user_shutdown); }

  std::shared_ptr<Told> told = std::make_shared<Told>();

 private:
  caf::actor_system_config config_;
  caf::actor_system system_;
  v0::StopRuleRef rule_;

 public:
  std::shared_ptr<StopJudge> judge;
};

GenerateRequest request_for(std::string prompt, Position max_new_tokens) {
  GenerateRequest request;
  request.input = std::move(prompt);
  request.stop.max_new_tokens = max_new_tokens;
  return request;
}

GenerateRequest judged(std::string prompt, Position max_new_tokens, JudgeRule rule) {
  GenerateRequest request = request_for(std::move(prompt), max_new_tokens);
  request.stop.judge = std::move(rule);
  return request;
}

std::shared_ptr<StreamLog> start(Engine& engine, GenerateRequest request) {
  auto log = std::make_shared<StreamLog>();
  (void)engine.generate(std::move(request), recorder(log), Delivery::kOnReturn);
  return log;
}

}  // namespace

TEST_CASE("a rule as an actor ends many streams exactly as the same rule as a function") {
  const RuleFunction rule = [](std::string_view text,
                               Position count) -> std::optional<v0::CustomEnd> {
    const std::size_t hash = std::hash<std::string_view>()(text);
    if (hash % 40 != 0) return std::nullopt;
    return v0::CustomEnd("token " + std::to_string(count), hash % 80 == 0 ? text.size() - 1 : hash);
  };
  Program program({.rule = rule});
  auto fatal = std::make_shared<std::atomic<int>>(-1);
  ScriptedEngineOptions options;
  options.next_token = ending_script(120);
  options.steps_until_fatal = fatal;
  options.config.restart.max_restarts = 100;
  Engine engine(scripted_engine(options));
  std::vector<std::shared_ptr<StreamLog>> expected;
  std::vector<std::shared_ptr<StreamLog>> actual;
  for (int i = 0; i < 120; ++i) {
    GenerateRequest request = request_for("stream " + std::to_string(i), 1 + i);
    request.stop.min_new_tokens = i % 4 == 0 ? std::min(i, 9) : 0;
    if (i % 3 == 0) request.stop.stop_strings = {{"e"}, {"ab"}};
    request.stop.custom = [&](const StopView& view) -> std::optional<CustomEnd> {
      const auto end = rule(view.text, view.num_tokens);
      if (!end) return std::nullopt;
      return CustomEnd(end->label, end->keep);
    };
    expected.push_back(start(engine, request));
    request.stop.custom = nullptr;
    request.stop.judge = {.judge = program.judge, .ahead = 1 + i % 5};
    actual.push_back(start(engine, std::move(request)));
    if (i % 40 == 20) *fatal = 4;  // streams are submitted again in the middle of a question
  }
  std::map<std::string, int> outcomes;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(expected[i]->wait_for_end());
    REQUIRE(actual[i]->wait_for_end());
    INFO("stream " << i);
    CHECK(actual[i]->sound());
    CHECK(actual[i]->outcome() == expected[i]->outcome());
    CHECK(actual[i]->text() == expected[i]->text());
    CHECK(actual[i]->ids() == expected[i]->ids());
    CHECK(actual[i]->done().matched == expected[i]->done().matched);
    CHECK(actual[i]->done().position == expected[i]->done().position);
    ++outcomes[actual[i]->outcome()];
  }
  CHECK(outcomes["custom"] > 20);
  CHECK(outcomes["max_new_tokens"] > 5);
  CHECK(eventually([&] { return program.told->num_over() == 120; }));
  CHECK(eventually([&] { return engine.stats().kv.used == 0; }));
}

TEST_CASE("a rule actor that dies or fails ends its streams or is left out") {
  const std::vector<RuleOptions> ways = {{.dies_at_question = 9}, {.fails_at_question = 9}};
  for (const RuleOptions& way : ways) {
    for (const bool ignore : {false, true}) {
      Program program(way);
      Engine engine(scripted_engine({}));
      const auto log =
          start(engine, judged("mortal", 60, {.judge = program.judge, .ignore_failure = ignore}));
      const auto neighbour = start(engine, request_for("neighbour", 200));
      REQUIRE(log->wait_for_end());
      REQUIRE(neighbour->wait_for_end());
      CHECK(log->sound());
      CHECK(log->outcome() == (ignore ? "max_new_tokens" : "error:stop_rule_failed"));
      CHECK(neighbour->outcome() == "max_new_tokens");
      if (ignore) CHECK(log->ids().size() == 60);
      if (!ignore)
        CHECK(log->error_message().find("its actor gave no answer") != std::string::npos);
      REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
    }
  }
}

TEST_CASE("a stream whose rule was dead before it began ends with a clear error") {
  Program program;
  program.end_rule();
  Engine engine(scripted_engine({}));
  const auto log = start(engine, judged("late", 60, {.judge = program.judge}));
  REQUIRE(log->wait_for_end());
  CHECK(log->outcome() == "error:stop_rule_failed");
  CHECK(log->ids().empty());
}

TEST_CASE("a rule actor that does not answer in time ends its stream only") {
  Program program({.promises_from = 5});
  Engine engine(scripted_engine({}));
  const auto late = start(
      engine, judged("late", 60, {.judge = program.judge, .limit = std::chrono::milliseconds(30)}));
  const auto neighbour = start(engine, request_for("neighbour", 300));
  REQUIRE(late->wait_for_end());
  CHECK(late->outcome() == "error:stop_rule_failed");
  CHECK(late->error_message().find("within 30 ms") != std::string::npos);
  REQUIRE(neighbour->wait_for_end());
  CHECK(neighbour->ids().size() == 300);
}

TEST_CASE("streams go on while others wait for a rule and those can be cancelled") {
  Program program({.promises_from = 3});
  ScriptedEngineOptions options;
  options.config.scheduler.max_running = 6;
  Engine engine(scripted_engine(options));
  std::vector<std::shared_ptr<StreamLog>> waiting;
  std::vector<StreamHandle> handles;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(std::make_shared<StreamLog>());
    handles.push_back(engine.generate(
        judged("waiting", 60, {.judge = program.judge, .limit = std::chrono::milliseconds(0)}),
        recorder(waiting.back()), Delivery::kOnReturn));
  }
  REQUIRE(eventually([&] { return program.told->num_questions() >= 6; }));
  for (int i = 0; i < 20; ++i) {
    const auto neighbour = start(engine, request_for("neighbour " + std::to_string(i), 100));
    REQUIRE(neighbour->wait_for_end());
    CHECK(neighbour->ids().size() == 100);
  }
  for (const auto& log : waiting) CHECK(log->terminals() == 0);
  handles[0].listener_gone();
  for (std::size_t i = 1; i < handles.size(); ++i) handles[i].cancel("enough");
  REQUIRE(waiting[0]->wait_for_destruction());
  for (std::size_t i = 1; i < handles.size(); ++i) {
    REQUIRE(waiting[i]->wait_for_end());
    CHECK(waiting[i]->outcome() == "cancelled");
    CHECK(waiting[i]->sound());
  }
  REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
  CHECK(eventually([&] { return program.told->num_over() == 4; }));
}

TEST_CASE("an engine goes down while streams wait for a rule") {
  Program program({.promises_from = 1});
  std::vector<std::shared_ptr<StreamLog>> logs;
  {
    Engine engine(scripted_engine({}));
    for (int i = 0; i < 8; ++i) {
      logs.push_back(start(engine, judged("waiting", 60, {.judge = program.judge})));
    }
    REQUIRE(eventually([&] { return program.told->num_questions() == 8; }));
  }
  for (const auto& log : logs) {
    CHECK(log->sound());
    CHECK(log->text().empty());
  }
}

TEST_CASE("a judge needs an actor") {
  CHECK_THROWS_AS(v0::make_stop_judge(v0::StopRuleRef{}), v0::Error);
}
