// Reading tokenizer.json: published tokenizers, and files that ask for too much.
#include "engine/tokenizer/hf_tokenizer.hpp"

#include <simdjson.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/tokenizer/utf8.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/shared_data.hpp"

namespace sluice {
namespace {

using Catch::Contains;
using simdjson::dom::element;
using Ids = std::vector<TokenId>;

/// Text as the reference shows it: each maximal ill-formed part becomes one U+FFFD.
std::string shown(std::string_view bytes) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t length = utf8_length(bytes, at);
    if (length != 0) {
      out += bytes.substr(at, length);
    } else {
      // Of a code point cut short, the bytes that could begin one belong together.
      length = 1;
      for (std::size_t more = 2; more <= 3 && at + more <= bytes.size(); ++more) {
        const std::string_view start = bytes.substr(at, more);
        bool could_begin = false;
        for (const std::string_view end :
             {"\x80", "\x90", "\xA0", "\xBF", "\x80\x80", "\x90\x80"}) {
          const std::string whole = std::string(start) + std::string(end);
          could_begin = could_begin || utf8_length(whole, 0) == whole.size();
        }
        if (could_begin) length = more;
      }
      out += "\xEF\xBF\xBD";
    }
    at += length;
  }
  return out;
}

Ids ids_of(element test) {
  Ids ids;
  for (const element id : test["ids"].get_array()) {
    ids.push_back(static_cast<TokenId>(id.get_int64().value()));
  }
  return ids;
}

template <class Check>
std::size_t for_each_line(const std::filesystem::path& path, Check check) {
  simdjson::dom::parser parser;
  std::ifstream lines(path);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) check(parser.parse(line).value());
  return count;
}

void check_published(const std::string& name) {
  const auto dir = test::shared_dir("conformance/tokenizers/" + name);
  if (!dir) return;
  const auto tokenizer = read_hf_tokenizer(*dir / "tokenizer.json");
  INFO(name << ": " << tokenizer->description());
  const std::size_t num_cases = for_each_line(*dir / "cases.jsonl", [&](element test) {
    const std::string text(test["text"].get_string().value());
    INFO("case " << test["id"].get_string().value() << ": " << text);
    const EncodeOptions options = {.add_special = test["add_special_tokens"].get_bool(),
                                   .parse_special = test["parse_special"].get_bool()};
    CHECK(tokenizer->encode(text, options) == ids_of(test));
    CHECK(tokenizer->decode(ids_of(test), false) == test["decoded"].get_string().value());
    std::string_view skipped;
    if (test["decoded_skip_special"].get(skipped) == simdjson::SUCCESS) {
      CHECK(tokenizer->decode(ids_of(test), true) == skipped);
    }
  });
  CHECK(num_cases > 300);
  const std::size_t num_decoded = for_each_line(*dir / "decode_cases.jsonl", [&](element test) {
    INFO("decode case " << test["id"].get_string().value());
    const bool skip_special = test["skip_special_tokens"].get_bool();
    CHECK(shown(tokenizer->decode(ids_of(test), skip_special)) ==
          test["decoded"].get_string().value());
  });
  CHECK(num_decoded > 50);
}

TEST_CASE("the published tokenizer of llama 3 gives its ids") {
  check_published("llama3");
}
TEST_CASE("the published tokenizer of qwen 3 gives its ids") {
  check_published("qwen3");
}
TEST_CASE("the published tokenizer of deepseek v3 gives its ids") {
  check_published("deepseek_v3");
}
TEST_CASE("the published tokenizer of gpt 2 gives its ids") {
  check_published("gpt2");
}
TEST_CASE("the published tokenizer of llama 2 gives its ids") {
  check_published("llama2");
}
TEST_CASE("the published tokenizer of mistral v1 gives its ids") {
  check_published("mistral_v1");
}
TEST_CASE("the published tokenizer of gemma 3 gives its ids") {
  check_published("gemma3");
}

TEST_CASE("the bundled model says the same as GGUF and as tokenizer json") {
  const auto dir = test::shared_dir("models/demo");
  if (!dir) return;
  const auto json = read_hf_tokenizer(*dir / "hf/tokenizer.json");
  const auto gguf = make_tokenizer(*open_model(*dir / "demo-f32.gguf"));
  std::ifstream stories(*dir / "validation.txt");
  const std::string text((std::istreambuf_iterator<char>(stories)),
                         std::istreambuf_iterator<char>());
  CHECK(text.size() > 100000);
  CHECK(json->encode(text, {}) == gguf->encode(text, {}));
  CHECK(Ids(json->end_tokens().begin(), json->end_tokens().end()) ==
        Ids(gguf->end_tokens().begin(), gguf->end_tokens().end()));
}

/// A tokenizer.json with one part replaced.
struct Parts {
  std::string normalizer = "null";
  std::string pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false})";
  std::string post_processor = "null";
  std::string added = "[]";
  std::string model = R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]})";
};

std::string refusal(const std::string& json) {
  const test::TempFile file(json);
  try {
    read_hf_tokenizer(file.path());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string refusal(const Parts& parts) {
  return refusal(R"({"normalizer":)" + parts.normalizer + R"(,"pre_tokenizer":)" +
                 parts.pre_tokenizer + R"(,"post_processor":)" + parts.post_processor +
                 R"(,"added_tokens":)" + parts.added + R"(,"model":)" + parts.model + "}");
}

TEST_CASE("a small tokenizer json is read") {
  CHECK(refusal(Parts{}).empty());
}

TEST_CASE("integers of any size are read") {
  Parts parts;
  parts.added = R"([{"id":3,"content":"1\" 1000000000000000000000","x":-1000000000000000000000}])";
  CHECK(refusal(parts).empty());
}

TEST_CASE("files that are no tokenizer json are refused") {
  CHECK_THAT(refusal(""), Contains("not valid JSON"));
  CHECK_THAT(refusal("{\"model\":"), Contains("not valid JSON"));
  CHECK_THAT(refusal(std::string(100000, '[')), Contains("not valid JSON"));
  CHECK_THAT(refusal("[]"), Contains("\"model\" is missing"));
  CHECK_THAT(refusal("{}"), Contains("\"model\" is missing"));
  CHECK_THROWS_WITH(read_hf_tokenizer("/no/such/tokenizer.json"), Contains("There is no file"));
}

TEST_CASE("steps that are not known are refused by name") {
  const auto with = [](auto change) {
    Parts parts;
    change(parts);
    return refusal(parts);
  };
  CHECK_THAT(with([](Parts& p) { p.normalizer = R"({"type":"Rot13"})"; }), Contains("'Rot13'"));
  CHECK_THAT(with([](Parts& p) { p.normalizer = "{}"; }), Contains("\"type\" is missing"));
  CHECK_THAT(with([](Parts& p) { p.pre_tokenizer = R"({"type":"UnicodeScripts"})"; }),
             Contains("'UnicodeScripts'"));
  CHECK_THAT(with([](Parts& p) {
               p.pre_tokenizer = R"({"type":"Split","pattern":{"Regex":"x"},"behavior":"Halved"})";
             }),
             Contains("'Halved'"));
  CHECK_THAT(with([](Parts& p) {
               p.pre_tokenizer =
                   R"({"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"})";
             }),
             Contains("faulty"));
  CHECK_THAT(with([](Parts& p) { p.post_processor = R"({"type":"Shuffle"})"; }),
             Contains("'Shuffle'"));
  CHECK_THAT(with([](Parts& p) { p.post_processor = R"({"type":"BertProcessing"})"; }),
             Contains("\"cls\" is missing"));
  CHECK_THAT(with([](Parts& p) {
               p.post_processor =
                   R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}}]})";
             }),
             Contains("no token '<s>'"));
  CHECK_THAT(with([](Parts& p) { p.model = R"({"type":"Markov","vocab":{"a":0}})"; }),
             Contains("'Markov'"));
  CHECK_THAT(with([](Parts& p) {
               p.model = R"({"type":"BPE","dropout":0.1,"vocab":{"a":0},"merges":[]})";
             }),
             Contains("dropout"));
}

TEST_CASE("faulty vocabularies in json are refused") {
  const auto with_model = [](const std::string& model) {
    Parts parts;
    parts.model = model;
    return refusal(parts);
  };
  CHECK_THAT(with_model(R"({"vocab":{},"merges":[]})"), Contains("no tokens"));
  CHECK_THAT(with_model(R"({"vocab":[],"merges":[]})"), Contains("no tokens"));
  CHECK_THAT(with_model(R"({"vocab":7,"merges":[]})"), Contains("\"vocab\" is missing"));
  CHECK_THAT(with_model(R"({"vocab":{"a":-1},"merges":[]})"), Contains("no id"));
  CHECK_THAT(with_model(R"({"vocab":{"a":4000000000},"merges":[]})"), Contains("far beyond"));
  CHECK_THAT(with_model(R"({"vocab":{"a":0}})"), Contains("\"merges\" is missing"));
  CHECK_THAT(with_model(R"({"vocab":{"a":0},"merges":["a"]})"), Contains("merge 0"));
  CHECK_THAT(with_model(R"({"vocab":{"a":0},"merges":[["a"]]})"), Contains("merge 0"));
  CHECK_THAT(with_model(R"({"vocab":{"a":0},"merges":[7]})"), Contains("merge 0"));
  CHECK_THAT(with_model(R"({"type":"Unigram","unk_id":9,"vocab":[["a",-1.0]]})"),
             Contains("\"unk_id\" is no token"));
  CHECK_THAT(with_model(R"({"type":"Unigram","vocab":[["a"]]})"), Contains("token 0"));
  CHECK_THAT(with_model(R"({"type":"Unigram","vocab":{"a":0}})"), Contains("its type"));
  Parts parts;
  parts.added = R"([{"content":"<x>"}])";
  CHECK_THAT(refusal(parts), Contains("\"id\" is missing"));
}

}  // namespace
}  // namespace sluice
