// Templates are hostile input: whatever they say, rendering ends soon, in bounded memory and
// stack, with a message that names line and reason.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/chat/jinja/json_value.hpp"
#include "engine/chat/jinja/template.hpp"

namespace {

using namespace sluice::jinja;
using Catch::Contains;
using Texts = std::vector<std::string>;

std::string repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

/// The kind of failure; fails the test when there is none.
FailureKind failure_of(const std::string& source, bool relaxed = false,
                       const std::string& context = "{}") {
  RenderOptions options;
  options.relaxed = relaxed;
  // Small, so that tests are fast also with sanitizers.
  options.limits.max_output_bytes = 1 << 20;
  options.limits.max_allocated_bytes = 64 << 20;
  options.limits.max_work = 200'000'000;
  try {
    Template::parse(source, "hostile").render(value_from_json(context), options);
  } catch (const TemplateError& error) {
    return error.kind();
  }
  FAIL("no failure: " << source.substr(0, 200));
  return FailureKind::kSyntax;
}

const std::string kForever = "{% for a in range(99999) %}{% for b in range(99999) %}";

}  // namespace

TEST_CASE("templates that go on forever are stopped") {
  for (const std::string& source : Texts{
           kForever + "{% endfor %}{% endfor %}",
           kForever + "{{ a }}{% endfor %}{% endfor %}",
           "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
           "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
           std::string("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
           "{% macro m(n) %}{% call m(n) %}{{ caller() }}{% endcall %}{% endmacro %}{{ m(1) }}",
           "{% set n = namespace(s='ab') %}" + kForever +
               "{% set n.s = n.s + n.s %}{% endfor %}{% endfor %}",
           "{% set n = namespace(s=[1]) %}" + kForever +
               "{% set n.s = n.s + n.s %}{% endfor %}{% endfor %}",
           "{% set n = namespace(s=[1]) %}" + kForever +
               "{% set n.s = [n.s, n.s] %}{% endfor %}{% endfor %}",
           "{% set n = namespace(s=1) %}" + kForever +
               "{% set n.s = [n.s] %}{% endfor %}{% endfor %}",
           "{% set n = namespace(s=range) %}" + kForever +
               "{% set n.s = [n.s].index %}{% endfor %}{% endfor %}",
           "{% set n = namespace(s=1) %}{% for a in range(9999) %}"
           "{% for x in [n.s] %}{% set n.s = loop %}{% endfor %}{% endfor %}",
           "{% set x = (1, 2) %}" + repeat("{% set x = (x, x) %}", 60) + "{{ {x: 1}[x] }}{{ x }}",
       }) {
    INFO(source.substr(0, 120));
    CHECK(failure_of(source) == FailureKind::kLimit);
  }
}

TEST_CASE("values of absurd size are refused before they are made") {
  for (const std::string& expression :
       Texts{"'a' * 99999999999", "'ab' * 9223372036854775807", "[1] * 99999999999",
             "[1, 2] * 9223372036854775807", "'x' | center(99999999999)",
             "'x'.ljust(9223372036854775807)", "'x'.zfill(99999999999)",
             "'a\\nb' | indent(99999999999)",
             "'a' | replace('', 'b' * 99999) | replace('b', 'c' * 99999)",
             "('b' * 99999).join('a' * 99999)", "[1] | batch(99999999999, 'x') | list",
             "[1] | slice(99999999999) | list", "('\\t' * 999) | replace('\\t', 'x' * 99999)",
             "('\\t' * 999).expandtabs(99999999)"}) {
    INFO(expression);
    CHECK(failure_of("{{ " + expression + " }}") == FailureKind::kLimit);
  }
  for (const std::string& expression : Texts{
           "range(100001)", "range(-9223372036854775807, 9223372036854775807)", "'%99999999d' % 1",
           "'{:99999999}'.format(1)", "'%.99999999f' % 1", "2 ** 64", "9223372036854775807 + 1",
           "-9223372036854775807 - 2", "9223372036854775807 * 2", "1 / 0", "1 % 0", "1 // 0.0",
           "[1] | tojson(indent=99999999)", "'a'.split('')", "'ab'[::0]", "0 ** -1"}) {
    INFO(expression);
    CHECK(failure_of("{{ " + expression + " }}") == FailureKind::kValue);
  }
}

TEST_CASE("values that come to hold themselves are stopped and let go") {
  for (const std::string& source : Texts{
           "{% set a = [1] %}{% set _ = a.append(a) %}{{ a }}",
           "{% set a = [1] %}{% set _ = a.append(a) %}{{ a | tojson }}",
           "{% set a = [1] %}{% set _ = a.append(a) %}{{ a == [1, a] }}{{ a < [1, a] }}{{ a == a }}"
           "{{ [a] == [[1, [1, a]]] }}",
           "{% set a = {} %}{% set _ = a.update(b={'c': a}) %}{{ a }}",
           "{% set a = [] %}{% set b = [a] %}{% set _ = a.append(b) %}{{ b | sort }}{{ b }}",
           "{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set m = [] %}"
           "{% set _ = n.l.append(m) %}{% set n.l = m %}{% endfor %}{{ [1] * 99999999999 }}"}) {
    INFO(source);
    CHECK(failure_of(source, true) == FailureKind::kLimit);
  }
  // Cycles that nobody walks are fine; the leak checker sees whether they are let go.
  RenderOptions relaxed;
  relaxed.relaxed = true;
  for (const std::string& source :
       Texts{"{% set n = namespace() %}{% set n.n = n %}ok", "{% macro m() %}{% endmacro %}ok",
             "{% set a = [] %}{% set _ = a.append(a) %}ok",
             "{% for i in [1] %}{% macro m() %}{{ loop }}{% endmacro %}{% endfor %}ok",
             "{% for i in [1] %}{{ loop.changed(loop) | string | replace('True', 'ok') }}{% endfor "
             "%}",
             "{% set n = namespace() %}{% for i in [n] %}{% set n.l = loop %}{% endfor %}ok"}) {
    CHECK(Template::parse(source, "cycle").render(Value::dict(Dict()), relaxed).text == "ok");
  }
}

TEST_CASE("deep templates are refused when they are parsed") {
  for (const std::string& source :
       Texts{"{{ " + repeat("(", 5000) + "1" + repeat(")", 5000) + " }}",
             "{{ " + repeat("[", 5000) + repeat("]", 5000) + " }}",
             "{{ " + repeat("not ", 5000) + "1 }}", "{{ " + repeat("-", 5000) + "1 }}",
             "{{ 1" + repeat("+1", 5000) + " }}", "{{ a" + repeat(".a", 5000) + " }}",
             "{{ a" + repeat("|upper", 5000) + " }}", "{{ 1" + repeat(" if 1 else 1", 5000) + " }}",
             "{{ a" + repeat("()", 5000) + " }}", "{{ " + repeat("{1:", 5000) + " }}",
             repeat("{% if 1 %}", 5000) + repeat("{% endif %}", 5000),
             repeat("{% for i in [1] %}", 5000), "{% set " + repeat("(", 5000) + " = 1 %}",
             "{{ a is " + repeat("eq ", 5000) + "}}", "{{ f(" + repeat("f(", 5000) + " }}"}) {
    INFO(source.substr(0, 60));
    CHECK(failure_of(source) == FailureKind::kSyntax);
  }
  // Wide is fine.
  const std::string wide = "{% if 0 %}" + repeat("{% elif 0 %}", 5000) + "{% endif %}{{ [" +
                           repeat("1,", 5000) + "]|length }}{{ 1" + repeat("~1", 150) + " }}";
  CHECK(Template::parse(wide, "wide").render(Value::dict(Dict()), {}).text.starts_with("50001"));
}

TEST_CASE("long texts take time in proportion") {
  RenderOptions options;
  options.limits.max_work = 400'000'000;  // a quadratic algorithm would need far more
  Dict context;
  context.set(Value::text("a"), Value::untrusted_text(std::string(200'000, 'a')));
  context.set(Value::text("b"), Value::untrusted_text(std::string(100'000, 'a') + "b"));
  context.set(Value::text("l"), Value::untrusted_text(repeat("a b\n", 50'000)));
  const Value value = Value::dict(std::move(context));
  for (const std::string& expression : Texts{"b in a",
                                             "a.find(b)",
                                             "a.rfind('b' ~ b)",
                                             "a.replace(b, '')",
                                             "a.split(b)|length",
                                             "a.rsplit(b, 3)|length",
                                             "l.split()|length",
                                             "l.split(' ')|length",
                                             "l.splitlines()|length",
                                             "l.replace(' ', '')|length",
                                             "l|upper|lower|title|length",
                                             "l|tojson|length",
                                             "l|trim|length",
                                             "[l]|string|length",
                                             "l[::-1]|length",
                                             "l|indent|length",
                                             "l|wordcount",
                                             "a.count('aa')",
                                             "a.partition(b)|length",
                                             "(a ~ ' ').rstrip()|length",
                                             "l|list|length",
                                             "l.split()|unique|list|length",
                                             "l.split()|sort|first",
                                             "l.rsplit(none, 99999)|length"}) {
    INFO(expression);
    CHECK(!Template::parse("{{ " + expression + " }}", "long").render(value, options).text.empty());
  }
}

TEST_CASE("the sandbox shows no attributes beyond those of templates") {
  for (const std::string& expression : Texts{
           "''.__class__.__mro__", "[].__class__.__base__", "{}.__init__.__globals__",
           "''['__class__'].x", "'{0.__class__.__name__}'.format(1)", "(''|attr('__class__')).x",
           "range.__globals__.x", "namespace().__dict__.x", "joiner().__init__.x", "x.__class__.y",
           "[1].append(2)", "{}.update(a=1)", "{'a': 1}.pop('a')", "[2, 1].sort()",
           "messages.clear.__self__.x", "loop.__class__.x", "cycler('a').__class__.x"}) {
    INFO(expression);
    const FailureKind kind = failure_of("{{ " + expression + " }}", false, R"({"messages": [1]})");
    CHECK((kind == FailureKind::kSecurity || kind == FailureKind::kUndefined));
  }
}

TEST_CASE("errors name template and line and reason") {
  const auto message = [](const std::string& source) -> std::string {
    try {
      Template::parse(source, "chat").render(value_from_json(R"({"x": "text"})"), {});
    } catch (const TemplateError& error) {
      CHECK(error.code() == sluice::ErrorCode::kInvalidArgument);
      return error.what();
    }
    return {};
  };
  CHECK(message("a\n\n{{ y.z }}") == "template chat, line 3: 'y' is undefined");
  CHECK(message("a\n{{ raise_exception('No ' ~ x) }}") == "template chat, line 2: No text");
  CHECK(message("{% if x %}\n{% endfor %}") ==
        "template chat, line 2: Encountered unknown tag 'endfor'. Jinja was looking for the "
        "following tags: 'elif' 'else' 'endif'");
  CHECK(message("{# a\n\n#}{% macro m(a) %}\n\n{{ a + 1 }}{% endmacro %}\n{{ m('s') }}") ==
        "template chat, line 5: can only concatenate str (not \"int\") to str");
  CHECK_THAT(message("\n\n{{ 'open }}"), Contains("line 3") && Contains("not closed"));
  CHECK_THAT(message("{{ x | foo }}"), Contains("No filter named 'foo'"));
  CHECK_THAT(message("{% include 'x' %}"), Contains("'include' is not supported"));
  CHECK_THAT(message("{% for a in 5 %}{% endfor %}"), Contains("'int' object is not iterable"));
  CHECK_THAT(message("{% set a.b = 1 %}"), Contains("non-namespace"));
  CHECK_THAT(message("{% break %}"), Contains("outside loop"));
  CHECK_THAT(message(std::string(5 << 20, 'x')), Contains("longer than 4 MiB"));
  for (const std::string& open :
       Texts{"{{", "{%", "{#", "{{ 1", "{% if", "{% raw %}", "{% if 1 %}"}) {
    CHECK_THAT(message(open), Contains("line 1"));
  }
}
