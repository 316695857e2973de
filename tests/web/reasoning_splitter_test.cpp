// Reasoning and content of an answer, however its text was cut.
#include "web/openai/reasoning_splitter.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string>

using namespace sluice::web::openai;

namespace {

void append(SplitText& to, const SplitText& more) {
  to.content += more.content;
  to.reasoning += more.reasoning;
}

/// The plain way: look for the marks in the whole text, one after the other.
SplitText reference(std::string text, bool inside) {
  SplitText out;
  for (;;) {
    const std::string mark = inside ? "</t>" : "<t>";
    const std::size_t at = text.find(mark);
    (inside ? out.reasoning : out.content) += text.substr(0, at);
    if (at == std::string::npos) return out;
    text.erase(0, at + mark.size());
    inside = !inside;
  }
}

}  // namespace

TEST_CASE("reasoning is told from content whatever the pieces") {
  std::mt19937_64 random(9);
  const char* const parts[] = {"<t>", "</t>", "<", "/", "t", ">", "a", "b ", "</", "<t"};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (std::uint64_t i = 0; i <= random() % 12; ++i) text += parts[random() % 10];
    const bool inside = random() % 2 == 0;
    ReasoningSplitter splitter("<t>", "</t>", inside);
    SplitText out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t bytes = 1 + random() % 4;
      append(out, splitter.feed(text.substr(at, bytes)));
      at += bytes;
    }
    append(out, splitter.finish());
    const SplitText expected = reference(text, inside);
    INFO(text);
    REQUIRE(out.content == expected.content);
    REQUIRE(out.reasoning == expected.reasoning);
  }
}

TEST_CASE("reasoning can be marked by special tokens") {
  ReasoningSplitter splitter("<t>", "</t>", false);
  CHECK(splitter.feed("a<").content == "a");
  CHECK(splitter.on_special("<t>").content == "<");
  CHECK(splitter.inside());
  CHECK(splitter.on_special("<other>").reasoning.empty());
  CHECK(splitter.feed("hm").reasoning == "hm");
  CHECK(splitter.on_special("</t>").reasoning.empty());
  CHECK(splitter.feed("b").content == "b");
}

TEST_CASE("without marks everything is content at once") {
  ReasoningSplitter splitter;
  CHECK(splitter.feed("<think>x</think>").content == "<think>x</think>");
  CHECK(splitter.finish().content.empty());
}
