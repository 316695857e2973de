#include "web/protocol.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::web;

namespace {

ProtocolError parse_bad(const std::string& json) {
  INFO(json);
  const ParsedFrame frame = parse_frame(json, {});
  REQUIRE(std::holds_alternative<ProtocolError>(frame));
  return std::get<ProtocolError>(frame);
}

GenerateMessage parse_good(const std::string& json, const SamplingParams& defaults = {}) {
  INFO(json);
  ParsedFrame frame = parse_frame(json, {defaults});
  if (const auto* error = std::get_if<ProtocolError>(&frame)) FAIL(error->message);
  return std::get<GenerateMessage>(std::move(frame));
}

/// A generate frame with one more field.
std::string with(const std::string& field) {
  return R"({"type":"generate","id":"a","prompt":"x",)" + field + "}";
}

}  // namespace

TEST_CASE("protocol reads a generate frame with every option") {
  const GenerateMessage message = parse_good(R"({
      "type":"generate","id":"s-1","prompt":"Once","parse_special":true,
      "max_tokens":64,"min_tokens":2,"temperature":0.5,"top_k":40,"top_p":0.9,"min_p":0.05,
      "repetition_penalty":1.1,"presence_penalty":-0.5,"frequency_penalty":0.25,
      "seed":18446744073709551615,"top_logprobs":3,
      "stop":["\n\n",{"text":"Human:","boundary":"line_start","scope":"both","include":true}],
      "stop_token_ids":[0,7],"ignore_eos":true,"min_confidence":0.25,"patience":5,
      "repetition_ngram":8,"repetition_times":3,"time_limit_ms":1500,"salt":"me"})");
  CHECK(message.id == "s-1");
  const GenerateRequest& request = message.request;
  CHECK(std::get<std::string>(request.input) == "Once");
  CHECK(request.parse_special);
  CHECK(request.sampling.temperature == 0.5F);
  CHECK(request.sampling.top_k == 40);
  CHECK(request.sampling.top_p == 0.9F);
  CHECK(request.sampling.min_p == 0.05F);
  CHECK(request.sampling.repetition_penalty == 1.1F);
  CHECK(request.sampling.presence_penalty == -0.5F);
  CHECK(request.sampling.frequency_penalty == 0.25F);
  CHECK(request.sampling.num_top_logprobs == 3);
  CHECK(request.seed == 18446744073709551615U);
  CHECK(request.salt == "me");
  const StopOptions& stop = request.stop;
  CHECK(stop.max_new_tokens == 64);
  CHECK(stop.min_new_tokens == 2);
  CHECK(stop.ignore_end_tokens);
  CHECK(stop.stop_token_ids == std::vector<TokenId>{0, 7});
  CHECK(stop.stop_strings ==
        std::vector<StopString>{{"\n\n"},
                                {"Human:", StopBoundary::kLineStart, StopScope::kBoth, true}});
  CHECK(stop.min_confidence == 0.25F);
  CHECK(stop.patience == 5);
  CHECK(stop.repetition_ngram == 8);
  CHECK(stop.repetition_times == 3);
  CHECK(stop.time_limit == std::chrono::milliseconds(1500));
}

TEST_CASE("protocol takes what a frame leaves open from the defaults") {
  SamplingParams defaults;
  defaults.temperature = 0.33F;
  defaults.top_k = 9;
  const auto message = parse_good(with(R"("top_k":4)"), defaults);
  CHECK(message.request.sampling.temperature == 0.33F);
  CHECK(message.request.sampling.top_k == 4);
  CHECK_FALSE(message.request.seed);
  CHECK_FALSE(message.request.stop.max_new_tokens);
}

TEST_CASE("protocol reads messages and a single stop string and whole floats and text seeds") {
  const auto message = parse_good(
      R"({"type":"generate","id":"b","stop":"END","top_k":3.0,"seed":"12345678901234567890",
          "messages":[{"role":"system","content":"Be brief."},{"role":"user","content":""}]})");
  const auto& messages = std::get<std::vector<ChatMessage>>(message.request.input);
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].role == "system");
  CHECK(messages[0].content == "Be brief.");
  CHECK(messages[1].content.empty());
  CHECK(message.request.stop.stop_strings == std::vector<StopString>{{"END"}});
  CHECK(message.request.sampling.top_k == 3);
  CHECK(message.request.seed == 12345678901234567890U);
}

TEST_CASE("protocol reads how long a stream is kept and what takes it up") {
  CHECK(parse_good(with(R"("keep_ms":30000)")).keep == std::chrono::seconds(30));
  CHECK(parse_good(with(R"("top_k":1)")).keep == std::chrono::milliseconds(0));
  CHECK(parse_bad(with(R"("keep_ms":300001)")).message ==
        "`keep_ms` must be a whole number from 0 to 300000, not 300001.");

  const auto resume = [](const std::string& fields) {
    return R"({"type":"resume","id":"a")" + fields + "}";
  };
  const ParsedFrame parsed = parse_frame(resume(R"(,"stream":"KEY","after":7)"), {});
  REQUIRE(std::holds_alternative<ResumeMessage>(parsed));
  CHECK(std::get<ResumeMessage>(parsed).id == "a");
  CHECK(std::get<ResumeMessage>(parsed).stream == "KEY");
  CHECK(std::get<ResumeMessage>(parsed).after == 7);
  const ParsedFrame from_start = parse_frame(resume(R"(,"stream":"KEY")"), {});
  REQUIRE(std::holds_alternative<ResumeMessage>(from_start));
  CHECK(std::get<ResumeMessage>(from_start).after == 0);

  const ProtocolError missing = parse_bad(resume(R"(,"after":7)"));
  CHECK(missing.message == "`stream` is missing; it must be the key that `accepted` brought.");
  CHECK(missing.id == "a");
  CHECK_FALSE(parse_bad(resume(R"(,"stream":"K","after":-1)")).message.empty());
}

TEST_CASE("protocol reads what to change") {
  const auto change = [](const std::string& fields) {
    return R"({"type":"change","id":"a")" + fields + "}";
  };
  const ParsedFrame all = parse_frame(
      change(R"(,"max_tokens":9,"stop":["X"],"stop_regex":"a+","temperature":0.5)"), {});
  REQUIRE(std::holds_alternative<ChangeMessage>(all));
  const StreamChanges& changes = std::get<ChangeMessage>(all).changes;
  CHECK(changes.max_new_tokens == 9);
  CHECK(changes.stop_strings == std::vector<StopString>{{"X"}});
  CHECK(changes.stop_patterns == std::vector<StopPattern>{{"a+"}});
  CHECK(changes.temperature == 0.5F);

  // An empty list takes all stops away; an absent one leaves them.
  const ParsedFrame none = parse_frame(change(R"(,"stop":[])"), {});
  REQUIRE(std::holds_alternative<ChangeMessage>(none));
  CHECK(std::get<ChangeMessage>(none).changes.stop_strings == std::vector<StopString>{});
  CHECK_FALSE(std::get<ChangeMessage>(none).changes.stop_patterns);
  CHECK_FALSE(std::get<ChangeMessage>(none).changes.temperature);

  CHECK(parse_bad(change("")).message ==
        "There is nothing to change; send `max_tokens`, `stop`, `stop_regex` or `temperature`.");
  CHECK(parse_bad(change(R"(,"top_k":3)")).message == "`top_k` is not a known field.");
  // What the engine would refuse is refused here, where the client hears it.
  CHECK(parse_bad(change(R"(,"stop_regex":"a$")")).code == "invalid_request");
  CHECK(parse_bad(change(R"(,"stop_regex":"(")")).code == "invalid_request");
  CHECK(parse_bad(change(R"(,"temperature":11)")).id.empty());
}

TEST_CASE("protocol reads stop patterns") {
  const GenerateMessage message =
      parse_good(with(R"("stop_regex":["a+",{"pattern":"^b","scope":"both","include":true}])"));
  REQUIRE(message.request.stop.stop_patterns.size() == 2);
  CHECK(message.request.stop.stop_patterns[0] == StopPattern{"a+"});
  CHECK(message.request.stop.stop_patterns[1] == StopPattern{"^b", StopScope::kBoth, true});
  CHECK(parse_bad(with(R"("stop_regex":[{"scope":"both"}])")).message ==
        "`stop_regex[0].pattern` is missing.");
  CHECK(parse_bad(with(R"("stop_regex":7)")).message ==
        "`stop_regex` must be a string or an array of stop patterns, not 7.");
}

TEST_CASE("protocol reads cancel and pause and unpause") {
  const std::pair<const char*, SteerMessage::Action> kCases[] = {
      {"cancel", SteerMessage::Action::kCancel},
      {"pause", SteerMessage::Action::kPause},
      {"unpause", SteerMessage::Action::kUnpause}};
  for (const auto& [type, action] : kCases) {
    const auto frame = parse_frame(std::string(R"({"id":"q","type":")") + type + R"("})", {});
    REQUIRE(std::holds_alternative<SteerMessage>(frame));
    CHECK(std::get<SteerMessage>(frame).action == action);
    CHECK(std::get<SteerMessage>(frame).id == "q");
  }
}

TEST_CASE("protocol says of every bad frame what is wrong with which field") {
  const std::string deep = std::string(40, '[') + std::string(40, ']');
  const std::string long_text(1025, 'x');
  struct Case {
    std::string json;
    std::string code;
    std::string message;
  };
  const std::vector<Case> cases = {
      // Not a JSON object.
      {"", "invalid_json", "The frame is empty; it must be one JSON object."},
      {"   ", "invalid_json", "The frame is empty; it must be one JSON object."},
      {"{\"type\":", "invalid_json", "The frame is not valid JSON; it must be one JSON object."},
      {"hello", "invalid_json", "The frame is not valid JSON; it must be one JSON object."},
      {"[1]", "invalid_json", "The frame must be one JSON object, not an array."},
      {"3", "invalid_json", "The frame must be one JSON object, not 3."},
      {"{\"a\":" + deep + "}", "invalid_json", "The frame nests deeper than 16 levels."},
      {"{\"a\":\"\xFF\"}", "invalid_json", "The frame is not valid UTF-8."},
      {"{\"seed\":18446744073709551616}", "invalid_json",
       "The frame has a malformed number, or one beyond 64 bits."},
      // Type and id.
      {"{}", "invalid_request",
       R"(`type` is missing; it must be "generate", "resume", "cancel", "pause", "unpause", "change" or "stats".)"},
      {R"({"type":5})", "invalid_request", "`type` must be a string, not 5."},
      {R"({"type":"fly","id":"a"})", "unknown_type",
       R"(`type` must be "generate", "resume", "cancel", "pause", "unpause", "change" or "stats", not "fly".)"},
      {R"({"type":"cancel"})", "invalid_request",
       "`id` is missing; give the stream a name of 1 to 64 bytes."},
      {R"({"type":"cancel","id":""})", "invalid_request", "`id` must have 1 to 64 bytes, not 0."},
      {R"({"type":"cancel","id":7})", "invalid_request", "`id` must be a string, not 7."},
      {R"({"type":"cancel","id":")" + std::string(65, 'i') + "\"}", "invalid_request",
       "`id` must have 1 to 64 bytes, not 65."},
      {R"({"type":"cancel","id":"a","now":true})", "invalid_request",
       "`now` is not a known field."},
      // Input.
      {R"({"type":"generate","id":"a"})", "invalid_request",
       "`messages` or `prompt` is missing: there is nothing to continue."},
      {R"({"type":"generate","id":"a","prompt":"x","messages":[]})", "invalid_request",
       "`messages` and `prompt` exclude each other; send one of them."},
      {R"({"type":"generate","id":"a","prompt":["x"]})", "invalid_request",
       "`prompt` must be a string, not an array."},
      {R"({"type":"generate","id":"a","messages":[]})", "invalid_request",
       "`messages` must hold at least one message."},
      {R"({"type":"generate","id":"a","messages":"hi"})", "invalid_request",
       R"(`messages` must be an array of objects with `role` and `content`, not "hi".)"},
      {R"({"type":"generate","id":"a","messages":["hi"]})", "invalid_request",
       R"(`messages[0]` must be an object with `role` and `content`, not "hi".)"},
      {R"({"type":"generate","id":"a","messages":[{"role":"user"}]})", "invalid_request",
       "`messages[0].content` is missing."},
      {R"({"type":"generate","id":"a","messages":[{"content":""}]})", "invalid_request",
       "`messages[0].role` is missing."},
      {R"({"type":"generate","id":"a","messages":[{"role":"user","content":null}]})",
       "invalid_request", "`messages[0].content` must be a string, not null."},
      {R"({"type":"generate","id":"a","messages":[{"role":"king","content":""}]})",
       "invalid_request",
       R"(`messages[0].role` must be "system", "user" or "assistant", not "king".)"},
      {R"({"type":"generate","id":"a","messages":[{"role":"user","content":"","name":"x"}]})",
       "invalid_request", "`messages[0].name` is not a known field."},
      {R"({"type":"generate","id":"a","parse_special":true,"messages":[{"role":"user","content":""}]})",
       "invalid_request",
       "`parse_special` goes with `prompt` only; in `messages` nobody can type a special token."},
      // Options.
      {with(R"("temperature":"hot")"), "invalid_request",
       R"(`temperature` must be a number from 0 to 10, not "hot".)"},
      {with(R"("temperature":-0.1)"), "invalid_request",
       "`temperature` must be a number from 0 to 10, not -0.1."},
      {with(R"("temperature":1e9)"), "invalid_request",
       "`temperature` must be a number from 0 to 10, not 1000000000.0."},
      {with(R"("top_k":2.5)"), "invalid_request",
       "`top_k` must be a whole number from 0 to 2147483647, not 2.5."},
      {with(R"("top_p":0)"), "invalid_request", "`top_p` must be above 0 and at most 1, not 0."},
      {with(R"("top_p":1.01)"), "invalid_request",
       "`top_p` must be a number from 0 to 1, not 1.01."},
      {with(R"("max_tokens":0)"), "invalid_request",
       "`max_tokens` must be a whole number from 1 to 2147483647, not 0."},
      {with(R"("max_tokens":99999999999)"), "invalid_request",
       "`max_tokens` must be a whole number from 1 to 2147483647, not 99999999999."},
      {with(R"("top_logprobs":21)"), "invalid_request",
       "`top_logprobs` must be a whole number from 0 to 20, not 21."},
      {with(R"("seed":-1)"), "invalid_request",
       "`seed` must be a whole number from 0 to 18446744073709551615, not -1."},
      {with(R"("seed":"1x")"), "invalid_request",
       R"(`seed` must be a whole number from 0 to 18446744073709551615, not "1x".)"},
      {with(R"("ignore_eos":1)"), "invalid_request", "`ignore_eos` must be true or false, not 1."},
      {with(R"("stop":7)"), "invalid_request",
       "`stop` must be a string or an array of stop strings, not 7."},
      {with(R"("stop":"")"), "invalid_request", "`stop` must have 1 to 1024 bytes, not 0."},
      {with("\"stop\":[\"a\",\"" + long_text + "\"]"), "invalid_request",
       "`stop[1]` must have 1 to 1024 bytes, not 1025."},
      {with(R"("stop":[null])"), "invalid_request",
       "`stop[0]` must be a string or an object with `text`, not null."},
      {with(R"("stop":[{"include":true}])"), "invalid_request", "`stop[0].text` is missing."},
      {with(R"("stop":[{"text":"x","boundary":"word"}])"), "invalid_request",
       R"(`stop[0].boundary` must be "anywhere", "line_start" or "after_space", not "word".)"},
      {with(R"("stop":[{"text":"x","scope":3}])"), "invalid_request",
       "`stop[0].scope` must be a string, not 3."},
      {with(R"("stop":[{"text":"x","where":3}])"), "invalid_request",
       "`stop[0].where` is not a known field."},
      {with(R"("stop_token_ids":3)"), "invalid_request",
       "`stop_token_ids` must be an array of token ids, not 3."},
      {with(R"("stop_token_ids":[1,"2"])"), "invalid_request",
       R"(`stop_token_ids[1]` must be a whole number from 0 to 2147483647, not "2".)"},
      {with(R"("salt":{})"), "invalid_request", "`salt` must be a string, not an object."},
      {with(R"("tempratur":1)"), "invalid_request", "`tempratur` is not a known field."},
      {with(R"("seed":1,"seed":2)"), "invalid_request", "`seed` is given twice."},
  };
  for (const Case& c : cases) {
    INFO(c.json);
    const ProtocolError error = parse_bad(c.json);
    CHECK(error.code == c.code);
    CHECK(error.message == c.message);
  }
}

TEST_CASE("protocol names the stream of a failed generate and of nothing else") {
  CHECK(parse_bad(with(R"("top_k":-1)")).id == "a");
  CHECK(parse_bad(R"({"type":"cancel","id":"a","x":1})").id.empty());
  CHECK(parse_bad(R"({"type":"fly","id":"a"})").id.empty());
}

TEST_CASE("protocol shows long values shortened at a whole code point") {
  std::string text = "xx";
  for (int i = 0; i < 30; ++i) text += "\xE2\x82\xAC";  // 3 bytes each: the cut falls inside one
  const ProtocolError error = parse_bad(with("\"temperature\":\"" + text + "\""));
  std::string shown = "xx";
  for (int i = 0; i < 12; ++i) shown += "\xE2\x82\xAC";
  CHECK(error.message == "`temperature` must be a number from 0 to 10, not \"" + shown + "...\".");
}

TEST_CASE("protocol refuses too many stop strings and token ids") {
  std::string strings = R"("stop":["x")";
  for (int i = 0; i < 64; ++i) strings += R"(,"x")";
  CHECK(parse_bad(with(strings + "]")).message == "`stop` may hold at most 64 strings, not 65.");
  std::string ids = R"("stop_token_ids":[1)";
  for (int i = 0; i < 256; ++i) ids += ",1";
  CHECK(parse_bad(with(ids + "]")).message ==
        "`stop_token_ids` may hold at most 256 ids, not 257.");
}

TEST_CASE("protocol survives random changes to a good frame") {
  const std::string good = with(
      R"("stop":["a",{"text":"b","include":true}],"temperature":0.5,"seed":7,"ignore_eos":false)");
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string frame = good;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) {
      const std::size_t at = random() % frame.size();
      switch (random() % 3) {
        case 0:
          frame[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          frame.erase(at, 1 + random() % 3);
          break;
        default:
          frame.insert(at, 1, "{}[]\",:0\\"[random() % 9]);
          break;
      }
      if (frame.empty()) break;
    }
    const ParsedFrame parsed = parse_frame(frame, {});
    if (const auto* error = std::get_if<ProtocolError>(&parsed)) {
      CHECK_FALSE(error->message.empty());
    }
  }
}
