// The conformance matrix: random token streams x stop sets x splits x minimum lengths x scopes.
// After every token the text shown must be exactly what the plain reference says may be shown.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "engine/stream/token_pipeline.hpp"
#include "tests/engine/stream/random_text.hpp"
#include "tests/engine/stream/table_tokenizer.hpp"
#include "tests/support/reference_stop.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Case {
  std::vector<std::string> tokens;  ///< bytes by id; the stream is 0, 1, 2, ...
  std::set<TokenId> special;
  PipelineOptions options;
};

Case random_case(RandomText& random) {
  Case c;
  random.set_narrow(random.chance(2));
  const bool scopes = random.chance(3);
  c.tokens = random.split(random.bytes(random.below(16)), 1 + random.below(5));
  c.options.stop.stop_strings = random.stop_strings(random.chance(20) ? 32 : 5, scopes);
  if (scopes) {
    c.options.reasoning = ReasoningMarkers{random.text(1 + random.below(2)),
                                           random.text(1 + random.below(2)), random.chance(2)};
  }
  if (random.chance(3)) {
    c.options.stop.min_new_tokens = static_cast<Position>(random.below(c.tokens.size() + 2));
  }
  const std::size_t most = random.chance(3) ? 1 + random.below(c.tokens.size() + 1) : 1000;
  c.options.limits.max_new_tokens = static_cast<Position>(most);
  if (random.chance(3) && !c.tokens.empty()) {
    const std::size_t id = random.below(c.tokens.size());
    c.tokens[id] = "<|mark|>";
    c.special.insert(static_cast<TokenId>(id));
  }
  return c;
}

/// What must be on the screen after the first `count` tokens.
struct Expected {
  std::string shown;
  std::optional<ReferenceStop> stop;
  bool open = false;
};

Expected expected_after(const Case& c, std::size_t count, bool at_end) {
  const auto min = static_cast<std::size_t>(c.options.stop.min_new_tokens);
  std::string bytes;
  std::size_t forgotten = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!c.special.contains(static_cast<TokenId>(i))) bytes += c.tokens[i];
    if (i + 1 < min) forgotten = decode_plainly(bytes).text.size();
  }
  DecodedText decoded = decode_plainly(bytes);
  if (at_end && decoded.open) decoded.text += "\uFFFD";
  if (count < min) forgotten = decoded.text.size();
  const auto& strings = c.options.stop.stop_strings;
  const ReferenceResult result =
      find_stop_plainly(decoded.text, strings, forgotten, c.options.reasoning);
  Expected expected{decoded.text, result.stop, decoded.open};
  if (result.stop) {
    const ReferenceStop& stop = *result.stop;
    expected.shown.resize(strings[stop.index].include ? stop.end : stop.begin);
  } else if (!at_end) {
    expected.shown.resize(decoded.text.size() - result.held);
  }
  return expected;
}

/// Everything delivered so far, checked as it comes.
struct Delivered {
  std::string text;
  TokenId next = 0;  ///< every token once, in order
  bool sound = true;

  void take(const std::vector<TokenPiece>& pieces, bool at_end) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const TokenPiece& piece = pieces[i];
      text += piece.text;
      sound = sound && is_valid_utf8(piece.text);
      if (piece.id == kNoToken) {
        sound = sound && at_end && i + 1 == pieces.size() && !piece.text.empty();
        continue;
      }
      sound = sound && piece.id == next && piece.logprob == static_cast<float>(-piece.id) &&
              piece.top.size() == 1 && piece.top[0].id == piece.id;
      ++next;
    }
  }
};

SampledToken token_number(std::size_t i) {
  const auto id = static_cast<TokenId>(i);
  return {id, static_cast<float>(-id), 1.0F, {{id, 0.0F}}};
}

/// Runs one case; the message says what was wrong, or is empty.
std::string run(const Case& c) {
  const auto tokenizer = std::make_shared<TableTokenizer>(c.tokens, c.special);
  TokenPipeline pipeline(c.options, tokenizer);
  Delivered delivered;
  const auto most = static_cast<std::size_t>(c.options.limits.max_new_tokens);
  for (std::size_t i = 0; i < c.tokens.size(); ++i) {
    std::vector<TokenPiece> pieces;
    const auto verdict = pipeline.push(token_number(i), false, pieces);
    delivered.take(pieces, verdict.has_value());
    if (!delivered.sound) return "pieces are not sound";
    const bool last = i + 1 == most;
    const Expected now = expected_after(c, i + 1, last);
    if (delivered.text != now.shown) return "text differs after a token";
    if (pipeline.text_bytes() != delivered.text.size()) return "text_bytes differs";
    if (!verdict) {
      if (now.stop) return "a stop was missed";
      if (last) return "the maximum was missed";
      const bool waits = now.open || pipeline.held_text_bytes() > 0;
      if (!waits && delivered.next != static_cast<TokenId>(i + 1)) return "a token waits idly";
      continue;
    }
    if (delivered.next != static_cast<TokenId>(i + 1)) return "a token was not delivered";
    if (verdict->rule == StopRule::kMaxNewTokens) return last ? "" : "the maximum came early";
    if (verdict->rule != StopRule::kStopString || last) return "the rule is wrong";
    if (!now.stop) return "a stop was invented";
    if (verdict->position != now.stop->begin) return "the position is wrong";
    const auto& strings = c.options.stop.stop_strings;
    return verdict->matched == strings[now.stop->index].text ? "" : "the stop string is wrong";
  }
  std::vector<TokenPiece> pieces;
  pipeline.finish(pieces);
  delivered.take(pieces, true);
  if (!delivered.sound) return "pieces are not sound at the end";
  if (delivered.next != static_cast<TokenId>(c.tokens.size())) return "a token is missing";
  if (delivered.text != expected_after(c, c.tokens.size(), true).shown) return "the end differs";
  return pipeline.held_back_bytes() == 0 ? "" : "something is still held";
}

std::string describe(const Case& c) {
  std::string out;
  for (const std::string& token : c.tokens) out += Catch::Detail::stringify(token) + " ";
  out += "| min " + std::to_string(c.options.stop.min_new_tokens) + " max " +
         std::to_string(c.options.limits.max_new_tokens) + " | ";
  for (const StopString& s : c.options.stop.stop_strings) {
    out += Catch::Detail::stringify(s.text) + "/" + std::to_string(static_cast<int>(s.boundary)) +
           "/" + std::to_string(static_cast<int>(s.scope)) + (s.include ? "+ " : " ");
  }
  if (c.options.reasoning) {
    out += "| " + Catch::Detail::stringify(c.options.reasoning->open) + " " +
           Catch::Detail::stringify(c.options.reasoning->close) +
           (c.options.reasoning->starts_open ? " inside" : "");
  }
  return out;
}

}  // namespace

TEST_CASE("streamed text equals the plain reference after every token") {
  const int cases = std::getenv("SLUICE_LONG") != nullptr ? 3'000'000 : 100'000;
  RandomText random(20);
  for (int i = 0; i < cases; ++i) {
    const Case c = random_case(random);
    const std::string fault = run(c);
    if (!fault.empty()) FAIL("case " << i << ": " << fault << ": " << describe(c));
  }
}

TEST_CASE("the text does not depend on how the bytes are cut into tokens") {
  RandomText random(21);
  for (int i = 0; i < 5000; ++i) {
    Case c = random_case(random);
    c.special.clear();
    c.options.stop.min_new_tokens = 0;
    c.options.limits.max_new_tokens = 1000;
    std::string bytes;
    for (const std::string& token : c.tokens) bytes += token;
    std::string first;
    for (std::size_t longest = 1; longest <= 5; ++longest) {
      c.tokens = random.split(bytes, longest);
      TokenPipeline pipeline(c.options, std::make_shared<TableTokenizer>(c.tokens));
      std::vector<TokenPiece> pieces;
      bool stopped = false;
      for (std::size_t t = 0; t < c.tokens.size() && !stopped; ++t) {
        stopped = pipeline.push(token_number(t), false, pieces).has_value();
      }
      if (!stopped) pipeline.finish(pieces);
      std::string text;
      for (const TokenPiece& piece : pieces) text += piece.text;
      if (longest == 1) first = text;
      if (text != first) FAIL(describe(c));
    }
  }
}
