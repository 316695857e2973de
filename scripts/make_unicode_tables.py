#!/usr/bin/env python3
"""Writes engine/chat/jinja/unicode_tables.cpp from the Unicode data of this Python (3.11: 14.0).

    scripts/make_unicode_tables.py | clang-format > engine/chat/jinja/unicode_tables.cpp
"""

import sys
import unicodedata

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def ranges(predicate):
    out, start = [], None
    for c in range(0x110001):
        inside = c < 0x110000 and predicate(chr(c))
        if inside and start is None:
            start = c
        if not inside and start is not None:
            out.append((start, c - 1))
            start = None
    return out


def simple_mapping(method):
    """(first, last, stride, delta): runs of code points that move by the same distance."""
    runs = []
    for c in POINTS:
        mapped = method(chr(c))
        if len(mapped) != 1 or ord(mapped) == c:
            continue
        delta = ord(mapped) - c
        if runs:
            first, last, stride, run_delta = runs[-1]
            step = c - last
            if delta == run_delta and (step == stride or (first == last and step <= 2)):
                runs[-1] = (first, c, step, delta)
                continue
        runs.append((c, c, 1, delta))
    return runs


def special_mapping(method, other=None):
    """Code points that become several, or that `other` maps differently."""
    out = []
    for c in POINTS:
        mapped = method(chr(c))
        if len(mapped) > 1 or (other is not None and mapped != other(chr(c))):
            out.append((c, [ord(x) for x in mapped]))
    return out


def emit(out, kind, name, rows):
    out.append(f"constexpr {kind} {name}Rows[] = {{")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 100:
            out.append(line)
            line = "   "
        line += " " + row + ","
    out += [line, "};", f"const std::span<const {kind}> {name} = {name}Rows;", ""]


def main():
    out = [
        f"// Unicode {unicodedata.unidata_version}, written by scripts/make_unicode_tables.py.",
        '#include "engine/chat/jinja/unicode_tables.hpp"',
        "",
        "namespace sluice::jinja {",
        "",
    ]
    for name, predicate in [
        ("kUnprintable", lambda c: not c.isprintable()),
        ("kAlphabetic", str.isalpha),
        ("kDigits", str.isdigit),
        ("kNumeric", lambda c: c.isalnum() and not c.isalpha()),
        ("kUppercase", str.isupper),
        ("kLowercase", str.islower),
        ("kTitlecase", lambda c: unicodedata.category(c) == "Lt"),
    ]:
        rows = [f"{{0x{a:x}, 0x{b:x}}}" for a, b in ranges(predicate)]
        emit(out, "CodePointRange", name, rows)
    for name, method in [("kToUpper", str.upper), ("kToLower", str.lower)]:
        rows = [f"{{0x{a:x}, 0x{b:x}, {s}, {d}}}" for a, b, s, d in simple_mapping(method)]
        emit(out, "CaseRun", name, rows)
    for name, special in [
        ("kSpecialUpper", special_mapping(str.upper)),
        ("kSpecialLower", special_mapping(str.lower)),
        ("kSpecialTitle", special_mapping(str.title, str.upper)),
    ]:
        rows = [f"{{0x{c:x}, {{{', '.join(hex(x) for x in m)}}}, {len(m)}}}" for c, m in special]
        emit(out, "SpecialCase", name, rows)
    out.append("}  // namespace sluice::jinja")
    sys.stdout.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
