// Mutated templates: any text gives a result or a TemplateError, never a crash. Run with
// sanitizers to get the most out of it; SLUICE_FUZZ_ROUNDS asks for more than a smoke test.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "engine/chat/jinja/json_value.hpp"
#include "engine/chat/jinja/template.hpp"
#include "tests/support/shared_data.hpp"

namespace {

namespace fs = std::filesystem;
using namespace sluice::jinja;

constexpr const char* kSeeds[] = {
    "{%- for m in messages %}{{ m.role ~ ': ' ~ m['content'] | trim }}{% if not loop.last %}\n"
    "{% endif %}{% else %}none{%- endfor -%}",
    "{% set ns = namespace(a=[], b={'k': (1, 2.5e3)}) %}{% set ns.a = ns.a + [messages[0]] %}"
    "{{ ns.a[-1:][::-1] | tojson(indent=2) }}{{ '%5.2f|%-5s' % (3.14, 'x') }}",
    "{% macro m(a, b='x', c=none) -%}{{ a }}{{ varargs }}{{ kwargs }}{{ caller() if caller }}"
    "{%- endmacro %}{% call(x) m(1, 2, 3, 4, k=5) %}{{ x }}{% endcall %}{{ m(*[1], **{'b': 2}) }}",
    "{% raw %}{{ {% endraw %}{# c -#}  {%+ if x is defined and 1 < 2 <= 3 or 'a' not in 'b' %}"
    "{{ \"\\u00e9\\x41\\n\" }}{% elif x.y[0] is divisibleby 2 %}{% endif %}",
    "{% set t | upper | replace('A', 'b') %}a{% filter lower %}B{{ messages | length }}"
    "{% endfilter %}{% endset %}{% with a=1, b=t %}{{ a ** 2 // 3 % 4 - b | int }}{% endwith %}",
    "{% for k, v in {'a': 1, 2: [none]} | dictsort recursive %}{{ loop.cycle('x', 'y') }}"
    "{{ loop.previtem }}{{ loop.changed(k) }}{% if k == 2 %}{% break %}{% endif %}{% endfor %}",
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(', ') }}"
    "{{ messages | groupby('role') | list }}{{ [3, 1] | sort | batch(2) | list }}",
    "{{ 'a,b c'.split(',', 1)[1].title().center(9, '*').replace('', '-', 3).partition('B') }}"
    "{{ '{0[k]!r:>9} {1:,.2f}'.format({'k': 'v'}, 1234.5) }}{{ messages.copy().pop() }}",
};

constexpr const char* kPieces[] = {"{{",
                                   "}}",
                                   "{%",
                                   "%}",
                                   "{#",
                                   "#}",
                                   "-",
                                   "+",
                                   "|",
                                   "(",
                                   ")",
                                   "[",
                                   "]",
                                   "{",
                                   "}",
                                   "'",
                                   "\"",
                                   "\\",
                                   "\n",
                                   " if ",
                                   " else ",
                                   " for x in ",
                                   "{% endif %}",
                                   "{% endfor %}",
                                   "{% endmacro %}",
                                   " is ",
                                   " in ",
                                   " not ",
                                   "**",
                                   "//",
                                   "~",
                                   "==",
                                   ",",
                                   ":",
                                   ".",
                                   "=",
                                   "0",
                                   "1e9",
                                   "99999999999999999999",
                                   "-1",
                                   "\xFF",
                                   "\xF0\x9F\xA6\x99",
                                   "\xC3",
                                   "loop",
                                   "messages",
                                   "range(9)",
                                   "namespace()",
                                   "none",
                                   " * 99999",
                                   "|tojson",
                                   "|list",
                                   "|string",
                                   ".append(1)",
                                   ".items()",
                                   "[::-1]",
                                   "caller()",
                                   "\r\n",
                                   "{% raw %}",
                                   "{% break %}",
                                   "{% set ",
                                   " recursive ",
                                   "{% generation %}",
                                   "x.y",
                                   "''",
                                   "[]",
                                   "%s"};

std::vector<std::string> seeds() {
  std::vector<std::string> texts(std::begin(kSeeds), std::end(kSeeds));
  if (const auto dir = sluice::test::shared_dir("conformance/templates")) {
    for (const auto& entry : fs::directory_iterator(*dir)) {
      std::ifstream in(entry.path() / "template.jinja", std::ios::binary);
      std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
      if (!text.empty()) texts.push_back(std::move(text));
    }
  }
  return texts;
}

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  std::string mutate(std::string text, const std::vector<std::string>& others) {
    const std::size_t count = 1 + below(6);
    for (std::size_t i = 0; i < count; ++i) once(text, others);
    return text;
  }
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

 private:
  void once(std::string& text, const std::vector<std::string>& others) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = std::min(below(20), text.size() - at);
    switch (below(6)) {
      case 0:
        text.erase(at, length);
        return;
      case 1:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        return;
      case 2:
        text.replace(at, length, kPieces[below(std::size(kPieces))]);
        return;
      case 3:
        text.insert(below(text.size() + 1), text.substr(at, length));
        return;
      case 4:
        if (!text.empty()) text[below(text.size())] = static_cast<char>(below(256));
        return;
      default: {
        const std::string& other = others[below(others.size())];
        text.insert(at, other.substr(below(other.size()), below(60)));
      }
    }
  }

  std::mt19937 random_;
};

}  // namespace

TEST_CASE("mutated templates never crash") {
  const char* const asked = std::getenv("SLUICE_FUZZ_ROUNDS");
  const int rounds = asked != nullptr ? std::atoi(asked) : 3000;
  const std::vector<std::string> texts = seeds();
  const Value context = value_from_json(
      R"({"messages": [{"role": "system", "content": "Be."}, {"role": "user", "content": "H\u00e9 \n"},
          {"role": "assistant", "content": null, "tool_calls": [{"type": "function", "id": "1",
           "function": {"name": "f", "arguments": {"a": [1, 2.5, null, true]}}}]},
          {"role": "tool", "content": [{"type": "text", "text": "x"}]}],
          "tools": [{"type": "function", "function": {"name": "f", "description": "d",
           "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}],
          "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})");
  RenderOptions options;
  options.limits.max_output_bytes = 1 << 20;
  options.limits.max_allocated_bytes = 16 << 20;
  options.limits.max_work = 20'000'000;
  Mutator mutator(20261129);
  int rendered = 0;
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string text = mutator.mutate(texts[mutator.below(texts.size())], texts);
    options.relaxed = mutator.below(2) == 0;
    try {
      const RenderResult result = Template::parse(text, "mutated").render(context, options);
      ++rendered;
      std::size_t last = 0;
      for (const ByteRange& range : result.untrusted) {
        REQUIRE(range.begin >= last);
        REQUIRE(range.begin < range.end);
        REQUIRE(range.end <= result.text.size());
        last = range.end;
      }
    } catch (const TemplateError& error) {
      REQUIRE(error.line() >= 1);
      REQUIRE(!error.reason().empty());
      ++refused;
    }
  }
  CHECK(rendered > 0);
  CHECK(refused > 0);
}
