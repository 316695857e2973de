// Rendered text knows which bytes came from outside. Every way to derive a text from an untrusted
// one must keep the mark.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "engine/chat/jinja/json_value.hpp"
#include "engine/chat/jinja/template.hpp"

namespace {

using namespace sluice::jinja;

const std::string kUntrusted = "Zq zQ\nZZ";  // no other letters in the templates below are Z or Q

RenderResult render(const std::string& source) {
  Dict context;
  context.set(Value::text("u"), Value::untrusted_text(kUntrusted));
  context.set(Value::text("t"), Value::text("trust"));
  context.set(Value::text("j"), value_from_json(R"({"Zk": ["zv", {"q": "Q\"Z"}]})"));
  return Template::parse(source, "marks").render(Value::dict(std::move(context)), {});
}

/// '^' under untrusted bytes, '.' under the others.
std::string marks(const RenderResult& result) {
  std::string out(result.text.size(), '.');
  std::size_t last = 0;
  for (const ByteRange& range : result.untrusted) {
    CHECK(range.begin < range.end);
    CHECK((range.begin > last || last == 0));  // sorted, disjoint, not touching
    CHECK(range.end <= out.size());
    for (std::size_t i = range.begin; i < range.end; ++i) out[i] = '^';
    last = range.end;
  }
  return out;
}

}  // namespace

TEST_CASE("marks are exact where texts are cut and joined") {
  const std::map<std::string, std::string> cases = {
      {"[{{ u[:2] }}]", ".^^."},
      {"{{ t }}{{ u[0] }}{{ t[1:] }}", ".....^...."},
      {"{{ '<' ~ u[:1] ~ '>' + u[-1:] }}", ".^.^"},
      {"{{ u.split() | join('+') }}", "^^.^^.^^"},
      {"{{ ('a' ~ u[:2] ~ 'b').upper() }}", ".^^."},
      {"{{ ('a' ~ u[:2] ~ 'b')[::-1] }}", ".^^."},
      {"{{ ('a' ~ u[:2] ~ 'b').replace('a', 'xx') }}", "..^^."},
      {"{{ 'a-b'.replace('-', u[:2]) }}", ".^^."},
      {"{{ ('  ' ~ u[:2] ~ ' ').strip() }}", "^^"},
      {"{{ '%s=%s' % (t, u[:2]) }}", "......^^"},
      {"{{ '{1}={0}'.format(u[:2], t) }}", "......^^"},
      {"{{ '%6s|' % u[:2] }}", "....^^."},
      {"{{ u[:2] | center(6) }}", "..^^.."},
      {"{{ [u[:2], t] | tojson }}", "..^^..........."},
      {"{{ [u[:2]] }}", "..^^.."},
      {"{{ j | tojson }}", "..^^.....^^.....^....^^^^...."},
      {"{{ u | length }}{{ u is string }}", "....."},
      {"{% set x %}<{{ u[:1] }}>{% endset %}{{ x }}{{ x | length }}", ".^.."},
      {"{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(u[:2]) }}", ".^^."},
      {"{% filter upper %}a{{ u[:2] }}{% endfilter %}", ".^^"},
      {"{% for c in u[:2] %}{{ c }},{% endfor %}", "^.^."},
      {"{{ 'yes' if u == u else u }}", "..."},
  };
  for (const auto& [source, expected] : cases) {
    const RenderResult result = render(source);
    INFO(source << " gives " << result.text);
    CHECK(marks(result) == expected);
  }
}

TEST_CASE("no untrusted letter loses its mark whatever happens to it") {
  const std::vector<std::string> expressions = {"u",
                                                "u|upper",
                                                "u|lower",
                                                "u|title",
                                                "u|capitalize",
                                                "u.title()",
                                                "u.swapcase()",
                                                "u|trim",
                                                "u.strip('Z')",
                                                "u|replace('q', 'ZQ'[:0])",
                                                "u|indent",
                                                "u|indent(u, true)",
                                                "u|truncate(4, true, '')",
                                                "u|center(20)",
                                                "u.ljust(20, 'x')",
                                                "u.zfill(20)",
                                                "u|escape",
                                                "u|safe",
                                                "u|string",
                                                "u|list",
                                                "u|reverse",
                                                "u|first",
                                                "u|last",
                                                "[u]|first",
                                                "[u, u]|unique|list",
                                                "[u]|sort|last",
                                                "[u]|map('upper')|join",
                                                "{'k': u}",
                                                "{u: 1}",
                                                "{u: 1}|dictsort",
                                                "{'k': u}|items|list",
                                                "{'k': u}.values()|join",
                                                "dict(k=u)",
                                                "(u, 1)",
                                                "[u]|tojson(indent=2)",
                                                "[u]|tojson(ensure_ascii=true)",
                                                "u|tojson",
                                                "u|tojson|tojson",
                                                "[[u]]|string|upper",
                                                "u.split('z')",
                                                "u.rsplit(none, 1)",
                                                "u.partition(' ')",
                                                "u.rpartition('\\n')",
                                                "u.splitlines()",
                                                "u.removeprefix('Z')",
                                                "u.expandtabs()",
                                                "'-'.join([u, u])",
                                                "u.join(['a', 'b', 'c'])",
                                                "'{:>20}'.format(u)",
                                                "'{!r}'.format(u)",
                                                "'{0[0]}'.format(u)",
                                                "'%r' % [u]",
                                                "'%(k)s' % {'k': u}",
                                                "'%s'|format(u)",
                                                "u|batch(3)|list",
                                                "u|slice(2)|list",
                                                "[[u]]|sum(start=[])",
                                                "u * 2",
                                                "u ~ u",
                                                "u + t",
                                                "namespace(a=u).a",
                                                "cycler(u).next()",
                                                "u|urlencode",
                                                "u|default('x')",
                                                "nope|default(u)",
                                                "[u]|groupby(0)|list",
                                                "u[::2]",
                                                "u[3:0:-1]",
                                                "j",
                                                "j|tojson",
                                                "j.Zk|join",
                                                "j.items()|list",
                                                "j|list",
                                                "j.keys()|join",
                                                "u|max",
                                                "u|wordcount|string ~ u"};
  for (const std::string& expression : expressions) {
    const RenderResult result = render("{{ " + expression + " }}");
    const std::string mask = marks(result);
    INFO(expression << " gives " << result.text);
    CHECK(!result.untrusted.empty());
    for (std::size_t i = 0; i < result.text.size(); ++i) {
      const char c = result.text[i];
      if (std::string("ZzQqVv").find(c) != std::string::npos) CHECK(mask[i] == '^');
    }
  }
}

TEST_CASE("what the template says itself is trusted") {
  const RenderResult result = render(
      "<|a|>{{ '<|b|>' }}{{ t }}{{ u|length }}{{ [1, 2.5, none, true] }}{{ {'k': 'v'}|tojson }}");
  CHECK(result.untrusted.empty());
}
