#include "engine/stream/token_pipeline.hpp"

#include <catch2/catch.hpp>

#include "tests/engine/stream/table_tokenizer.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

/// A pipeline over a list of token texts; "<...|>" would be special by `special`.
struct Bench {
  Bench(std::vector<std::string> tokens, StopOptions stop, std::set<TokenId> special = {},
        std::optional<ReasoningMarkers> reasoning = {}, Position max_new_tokens = 1000)
      : count(tokens.size()),
        pipeline({.stop = std::move(stop),
                  .end_tokens = {100},
                  .limits = {.max_new_tokens = max_new_tokens, .room = 0},
                  .reasoning = std::move(reasoning)},
                 std::make_shared<TableTokenizer>(std::move(tokens), std::move(special))) {}

  /// What token `id` brings to light: "id=text" for every piece.
  std::string push(TokenId id) {
    std::vector<TokenPiece> pieces;
    verdict = pipeline.push({id, 0.0F, 1.0F, {}}, false, pieces);
    return written(pieces);
  }
  std::string finish() {
    std::vector<TokenPiece> pieces;
    pipeline.finish(pieces);
    return written(pieces);
  }
  /// All tokens until a verdict, then the end: the text.
  std::string run() {
    for (std::size_t id = 0; id < count && !verdict; ++id) push(static_cast<TokenId>(id));
    if (!verdict) finish();
    return text;
  }

  std::string written(const std::vector<TokenPiece>& pieces) {
    std::string out;
    for (const TokenPiece& piece : pieces) {
      out += (out.empty() ? "" : " ") + std::to_string(piece.id) + "=" + piece.text;
      text += piece.text;
    }
    return out;
  }

  std::size_t count;
  TokenPipeline pipeline;
  std::optional<Verdict> verdict;
  std::string text;
};

std::string text_of(std::vector<std::string> tokens, std::vector<StopString> strings) {
  return Bench(std::move(tokens), {.stop_strings = std::move(strings)}).run();
}

}  // namespace

TEST_CASE("the example of the pipeline header holds") {
  Bench bench({"Hi", ".\n", "Hu", "mble"}, {.stop_strings = {{"\nHuman:"}}});
  CHECK(bench.push(0) == "0=Hi");
  CHECK(bench.push(1) == "1=.");
  CHECK(bench.pipeline.held_back_bytes() == 1);
  CHECK(bench.push(2).empty());
  CHECK(bench.push(3) == "2=\nHu 3=mble");
  CHECK(bench.pipeline.held_back_bytes() == 0);
}

TEST_CASE("stop strings of a chat that goes on by itself") {
  CHECK(text_of({"Sure", ".\n\n", "Next"}, {{"\n\n"}}) == "Sure.");
  CHECK(text_of({"Sure.\n", "\nNext"}, {{"\n\n"}}) == "Sure.");
  CHECK(text_of({"Act", "\nObs", "erv", "ation", ": 3"}, {{"Observation:"}}) == "Act\n");
  CHECK(text_of({"x = 1\n", "`", "``", "\nDone"}, {{"```", StopBoundary::kLineStart}}) ==
        "x = 1\n");
  CHECK(text_of({"I am hu", "man", ": yes"}, {{"Human:"}}) == "I am human: yes");
  CHECK(text_of({"Hi\nHu", "man:", " more"}, {{"Human:", StopBoundary::kLineStart}}) == "Hi\n");
}

TEST_CASE("the part of a token after a stop is cut and later tokens do not count") {
  Bench bench({"ab", "STOPcd", "ef"}, {.stop_strings = {{"STOP"}}});
  CHECK(bench.push(0) == "0=ab");
  CHECK(bench.push(1) == "1=");  // delivered, so that ids and usage agree
  REQUIRE(bench.verdict);
  CHECK(bench.verdict->rule == StopRule::kStopString);
  CHECK(bench.verdict->matched == "STOP");
  CHECK(bench.verdict->position == 2);
  CHECK(bench.pipeline.tokens() == std::vector<TokenId>{0, 1});
}

TEST_CASE("a stop string over several tokens delivers each of them once") {
  Bench bench({"a S", "TO", "P b"}, {.stop_strings = {{"STOP"}}});
  CHECK(bench.push(0) == "0=a ");
  CHECK(bench.push(1).empty());
  CHECK(bench.push(2) == "1= 2=");
  CHECK(bench.text == "a ");
}

TEST_CASE("an included stop string is shown but not what follows") {
  Bench bench({"a S", "TO", "P b"}, {.stop_strings = {{.text = "STOP", .include = true}}});
  CHECK(bench.push(0) == "0=a ");
  CHECK(bench.push(1).empty());
  CHECK(bench.push(2) == "1=STO 2=P");
  CHECK(bench.verdict->position == 2);
}

TEST_CASE("the end token is delivered without text after what was held back") {
  std::vector<std::string> tokens(101, "x\n");
  tokens[100] = "<end>";
  Bench bench(tokens, {.stop_strings = {{"\n\n"}}});
  CHECK(bench.push(0) == "0=x");
  CHECK(bench.push(100) == "100=\n");  // the held line feed has no other token to go with
  REQUIRE(bench.verdict);
  CHECK(bench.verdict->rule == StopRule::kEndToken);
  CHECK(bench.verdict->matched == "<end>");
  CHECK(bench.verdict->matched_token == 100);
  CHECK(bench.verdict->position == 2);
}

TEST_CASE("special tokens show no text and are delivered at once") {
  Bench bench({"a", "<|x|>", "b"}, {.stop_strings = {{"<|x|>"}}}, {1});
  CHECK(bench.push(0) == "0=a");
  CHECK(bench.push(1) == "1=");
  CHECK(bench.push(2) == "2=b");
}

TEST_CASE("code points split over tokens wait for their end") {
  Bench bench({"\xF0\x9F", "\x98", "\x80!", "z\xE2\x80"}, {});
  CHECK(bench.push(0).empty());
  CHECK(bench.push(1).empty());
  CHECK(bench.push(2) == "0= 1= 2=\U0001F600!");
  CHECK(bench.push(3) == "3=z");
  CHECK(bench.pipeline.held_back_bytes() == 2);
  CHECK(bench.finish() == "-1=\uFFFD");  // its token was delivered before
  CHECK(bench.finish().empty());
}

TEST_CASE("held back text at the end is shown once with its token when that waits") {
  Bench waiting({"a", "\n"}, {.stop_strings = {{"\n\n"}}});
  CHECK(waiting.push(0) == "0=a");
  CHECK(waiting.push(1).empty());
  CHECK(waiting.finish() == "1=\n");
}

TEST_CASE("text of an earlier token can be released while the newest is held") {
  Bench bench({"Hi\nHu", "\nHu", "!"}, {.stop_strings = {{"\nHuman:"}}});
  CHECK(bench.push(0) == "0=Hi");
  CHECK(bench.push(1) == "1=\nHu");  // the first one's; its own is held
  CHECK(bench.pipeline.held_back_bytes() == 3);
  CHECK(bench.push(2) == "2=\nHu!");
}

TEST_CASE("at the maximum a completed stop string is cut all the same") {
  Bench bench({"a", "STOP"}, {.stop_strings = {{"STOP"}}}, {}, {}, 2);
  CHECK(bench.push(0) == "0=a");
  CHECK(bench.push(1) == "1=");
  REQUIRE(bench.verdict);
  CHECK(bench.verdict->rule == StopRule::kMaxNewTokens);
  CHECK(bench.verdict->detail == "the last token also completed the stop string \"STOP\"");
}

TEST_CASE("text before the minimum is shown at once and never matched later") {
  Bench bench({"ST", "OP", "ST", "OP", "STOP"}, {.min_new_tokens = 4, .stop_strings = {{"STOP"}}});
  CHECK(bench.push(0) == "0=ST");
  CHECK(bench.push(1) == "1=OP");
  CHECK(bench.push(2) == "2=ST");
  CHECK(bench.push(3) == "3=OP");  // its beginning came before the minimum
  CHECK(bench.push(4) == "4=");
  CHECK(bench.verdict->position == 8);
}

TEST_CASE("a stop string for the answer does not fire in the reasoning") {
  const ReasoningMarkers think{"<think>", "</think>"};
  const std::vector<std::string> tokens = {"<th", "ink>a.\n\nb</thi", "nk>", "Yes.\n", "\nMore"};
  const auto run = [&](StopScope scope, std::optional<ReasoningMarkers> markers) {
    return Bench(tokens, {.stop_strings = {{.text = "\n\n", .scope = scope}}}, {}, markers).run();
  };
  CHECK(run(StopScope::kContent, think) == "<think>a.\n\nb</think>Yes.");
  CHECK(run(StopScope::kReasoning, think) == "<think>a.");
  CHECK(run(StopScope::kBoth, think) == "<think>a.");
  CHECK(run(StopScope::kContent, std::nullopt) == "<think>a.");
  CHECK(run(StopScope::kReasoning, std::nullopt) == "<think>a.\n\nb</think>Yes.\n\nMore");
}

TEST_CASE("reasoning may begin in the prompt and its markers may be special tokens") {
  const ReasoningMarkers think{"<think>", "</think>", true};
  const std::vector<std::string> tokens = {"a\n\nb", "</think>", "\n", "\n", "c"};
  Bench bench(tokens, {.stop_strings = {{"\n\n"}}}, {1}, think);
  CHECK(bench.push(0) == "0=a\n\nb");
  CHECK(bench.push(1) == "1=");
  CHECK(bench.push(2).empty());
  CHECK(bench.push(3) == "2= 3=");
  CHECK(bench.text == "a\n\nb");
}
