// The template language, feature by feature. The expected texts are what the reference (Jinja
// 3.1 with Hugging Face's settings) gave.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/chat/jinja/json_value.hpp"
#include "engine/chat/jinja/template.hpp"

namespace {

using namespace sluice::jinja;

/// Pairs of template and expected text.
void check(const std::vector<std::pair<std::string, std::string>>& cases) {
  const Value context = value_from_json(
      R"({"n": 3, "s": "Hello", "l": [3, 1, 2], "d": {"b": 1, "a": [1, null]},
          "us": [{"r": "u", "c": "one"}, {"r": "A", "c": "two"}, {"r": "a", "c": "three"}]})");
  RenderOptions options;
  options.now.emplace();
  options.now->tm_year = 126;  // 2026-01-02, a Friday
  options.now->tm_mday = 2;
  options.now->tm_wday = 5;
  for (const auto& [source, expected] : cases) {
    INFO(source);
    CHECK(Template::parse(source, "case").render(context, options).text == expected);
  }
}

}  // namespace

TEST_CASE("white space as the reference has them") {
  check({
      {R"~(  {% if n %}  
a
  {% endif %}
b)~",
       R"~(  
a
b)~"},
      {R"~(a{%- if n -%}  b  {%- endif -%}  c)~", R"~(abc)~"},
      {R"~({% for i in l %}
- {{ i }}
{% endfor %}
end)~",
       R"~(- 3
- 1
- 2
end)~"},
      {R"~(  {# c #}
x  {#- c -#}  y)~",
       R"~(xy)~"},
      {R"~({{ n }}
{{ n }}
)~",
       R"~(3
3)~"},
      {R"~({%+ if n %} a {%+ endif +%}
b)~",
       R"~( a 
b)~"},
      {R"~({% raw %} {{ n }} {%- endraw %} c)~", R"~( {{ n }} c)~"},
      {"a\r\nb\rc", R"~(a
b
c)~"},
      {R"~({% set x = 1 -%}

  y)~",
       R"~(y)~"},
  });
}

TEST_CASE("expressions as the reference has them") {
  check({
      {R"~({{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 1 ~ 2 * 3 ~ 4 }})~",
       R"~(3 -4 2 3.5 64 4 164)~"},
      {R"~({{ 1 < n <= 3 }} {{ not n == 3 }} {{ n in l and 'x' or 'y' }} {{ 'ell' in s }} {{ 9 not in l }})~",
       R"~(True False x True True)~"},
      {R"~({{ 'a' if n > 5 else 'b' if n > 2 else 'c' }}{{ 'z' if false }})~", R"~(b)~"},
      {R"~({{ 1e16 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 3.0 }} {{ 1_000 }} {{ 100.0 }})~",
       R"~(1e+16 1e-05 0.30000000000000004 3.0 1000 100.0)~"},
      {R"~({{ s[1:3] }} {{ s[::-1] }} {{ l[-1] }} {{ l[5] is defined }} {{ s[-2:] }} {{ l[::2] }} {{ (1,2,3)[:2] }})~",
       R"~(el olleH 2 False lo [3, 2] (1, 2))~"},
      {R"~({{ [1, 'a\n', "it's", none, true, (1,), {'k': 2.0}] }})~",
       R"~([1, 'a\n', "it's", None, True, (1,), {'k': 2.0}])~"},
      {R"~({{ d.b }} {{ d['a'][0] }} {{ d.items() }} {{ d.keys() | list }} {{ d.zz }}| {{ us.0.c }})~",
       R"~(1 1 dict_items([('b', 1), ('a', [1, None])]) ['b', 'a'] | one)~"},
      {R"~({{ {1: 'a', 1.0: 'b', true: 'c'} }} {{ [0, 1.0, false] == [false, 1, 0.0] }})~",
       R"~({1: 'c'} True)~"},
      {R"~({{ "a" 'b' "\u00e9\x41\t|" }})~", R"~(abéA	|)~"},
      {R"~({{ (n | string) + "1" }} {{ (n ~ 1) | int + 1 }} {{ -n | abs }})~", R"~(31 32 3)~"},
      {R"~({{ '%s-%d-%5.1f-%x' % ('a', 3, 2.25, 255) }} {{ '{}:{:>4}:{:.2f}'.format(1, 'x', 2) }})~",
       R"~(a-3-  2.2-ff 1:   x:2.00)~"},
  });
}

TEST_CASE("statements as the reference has them") {
  check({
      {R"~({% for i in l if i != 1 %}{{ loop.index }}/{{ loop.length }}:{{ i }}{{ ',' if not loop.last }}{% else %}none{% endfor %})~",
       R"~(1/2:3,2/2:2)~"},
      {R"~({% for k, v in d | dictsort %}{{ k }}={{ v }};{% endfor %})~", R"~(a=[1, None];b=1;)~"},
      {R"~({% for i in range(9) %}{% if i is odd %}{% continue %}{% endif %}{% if i > 5 %}{% break %}{% endif %}{{ i }}{% endfor %})~",
       R"~(024)~"},
      {R"~({% set x = 1 %}{% for i in l %}{% set x = i %}{% endfor %}{{ x }}{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }})~",
       R"~(17)~"},
      {R"~({% set a, b = 1, [2, 3] %}{{ a }}{{ b }}{% set t | upper %}x{{ a }}{% endset %}{{ t }})~",
       R"~(1[2, 3]X1)~"},
      {R"~({% macro m(a, b='B', c=a) %}[{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}]{% endmacro %}{{ m(1) }}{{ m(1, 2, 3, 4, k=5) }}{{ m(b=1, a=2) }})~",
       R"~([1B1(){}][123(4,){'k': 5}][212(){}])~"},
      {R"~({% macro m(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) m(3) %}{{ y + 1 }}{% endcall %})~",
       R"~(<4>)~"},
      {R"~({% filter upper | trim %} a{{ s }} {% endfilter %}{% with q = 5 %}{{ q }}{% endwith %}{{ q is defined }})~",
       R"~(AHELLO5False)~"},
      {R"~({% for i in [[1, [2]], [3]] recursive %}{{ loop.depth }}{% if i is iterable %}({{ loop(i) }}){% else %}{{ i }}{% endif %}{% endfor %})~",
       R"~(1(212(32))1(23))~"},
      {R"~({% for i in l %}{{ loop.cycle('a', 'b') }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.revindex0 }}{% endfor %})~",
       R"~(a12b321a10)~"},
      {R"~({% for i in l %}{% break %}{% else %}also{% endfor %})~", R"~(also)~"},
  });
}

TEST_CASE("filters and tests as the reference has them") {
  check({
      {R"~({{ us | selectattr('r', 'equalto', 'u') | map(attribute='c') | join }} {{ us | rejectattr('r', 'eq', 'u') | list | length }})~",
       R"~(one 2)~"},
      {R"~({{ l | sort }} {{ ['b', 'A', 'c'] | sort }} {{ us | map(attribute='r') | unique | list }} {{ l | sum }} {{ l | max }} {{ us | sort(attribute='c') | map(attribute='c') | list }})~",
       R"~([1, 2, 3] ['A', 'b', 'c'] ['u', 'A'] 6 3 ['one', 'three', 'two'])~"},
      {R"~({{ d | tojson }} {{ d | tojson(sort_keys=true, separators=(',', ':')) }} {{ 'é<' | tojson(ensure_ascii=true) }}
{{ d | tojson(indent=2) }})~",
       R"~({"b": 1, "a": [1, null]} {"a":[1,null],"b":1} "\u00e9<"
{
  "b": 1,
  "a": [
    1,
    null
  ]
})~"},
      {R"~({{ 'a\nb\n\nc' | indent(2, true) }}|{{ ' x ' | trim }}|{{ 'a-b c' | title }}|{{ 'hELLO' | capitalize }}|{{ s | replace('l', 'L', 1) }})~",
       R"~(  a
  b

  c|x|A-B C|Hello|HeLlo)~"},
      {R"~({{ '3.7' | int }} {{ 'x' | int(7) }} {{ '0x1F' | int(base=16) }} {{ 2.5 | round }} {{ 3.14159 | round(2) }} {{ 2.5 | round(method='ceil') }} {{ '1e3' | float }})~",
       R"~(3 7 31 2.0 3.14 3.0 1000.0)~"},
      {R"~({{ x | default('d') }} {{ '' | default('d', true) }} {{ none | default('d') }} {{ l | first }}{{ l | last }} {{ l | batch(2) | list }} {{ us | groupby('r') | map('first') | list }})~",
       R"~(d d None 32 [[3, 1], [2]] ['A', 'u'])~"},
      {R"~({{ 'foo bar baz qux' | truncate(9) }} {{ 'foo bar baz' | wordcount }} {{ '<a>' | e }} {{ 'ab' | center(6) }}| {{ l | reverse | list }} {{ s | list }})~",
       R"~(foo... 3 &lt;a&gt;   ab  | [2, 1, 3] ['H', 'e', 'l', 'l', 'o'])~"},
      {R"~({{ 1 is number }} {{ 'A' is upper }} {{ none is none }} {{ {} is mapping }} {{ 4 is divisibleby 2 }} {{ l is sequence }} {{ 2 is in l }} {{ 1 is not string }} {{ range is callable }})~",
       R"~(True True True True True True True True True)~"},
      {R"~({{ strftime_now('%Y-%m-%d %d %b %Y, %A') }} {{ dict(a=1) }} {{ range(1, 9, 3) | list }} {% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }} {% set j = joiner('|') %}{{ j() }}a{{ j() }}b)~",
       R"~(2026-01-02 02 Jan 2026, Friday {'a': 1} [1, 4, 7] aba a|b)~"},
  });
}

TEST_CASE("methods as the reference has them") {
  check({
      {R"~({{ s.upper() }} {{ s.startswith(('h', 'H')) }} {{ s.find('l') }} {{ s.rfind('l') }} {{ s.count('l') }} {{ s.replace('', '-') }})~",
       R"~(HELLO True 2 3 2 -H-e-l-l-o-)~"},
      {R"~({{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.rsplit(' ', 1) }} {{ 'a\nb\r\n'.splitlines() }})~",
       R"~(['a', 'b', '', 'c'] ['a', 'b'] ['a', 'b c'] ['a b', 'c'] ['a', 'b'])~"},
      {R"~({{ 'xxaxx'.strip('x') }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ '7'.zfill(3) }} {{ 'ab'.ljust(4, '.') }} {{ '-'.join(['a', 'b']) }})~",
       R"~(a ('a', '=', 'b=c') ('a=b', '=', 'c') 007 ab.. a-b)~"},
      {R"~({{ 'straße'.upper() }} {{ 'ΟΔΟΣ'.lower() }} {{ 'ǆ'.title() }} {{ 'İ'.lower() | length }} {{ 'ñ🦙'[1] }} {{ '日本' | length }} {{ ['\x00é\u200b🦙'] }})~",
       R"~(STRASSE οδος ǅ 2 🦙 2 ['\x00é\u200b🦙'])~"},
      {R"~({{ d.get('zz') }} {{ d.get('zz', 5) }} {{ d.values() | list }} {{ l.index(1) }} {{ l.count(3) }} {{ 'Ab'.swapcase() }} {{ 'ab'.isalpha() }} {{ '12'.isdigit() }})~",
       R"~(None 5 [1, [1, None]] 1 1 aB True True)~"},
  });
}
