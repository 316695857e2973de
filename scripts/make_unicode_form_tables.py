#!/usr/bin/env python3
"""Writes engine/tokenizer/unicode_form_tables.cpp from the Unicode data of this Python."""

import unicodedata

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def compatibility():
    rows, parts = [], []
    for c in POINTS:
        full = unicodedata.normalize("NFKD", chr(c))
        if full == unicodedata.normalize("NFD", chr(c)):
            continue
        rows.append((c, len(parts), len(full)))
        parts += [ord(part) for part in full]
    return rows, parts


def lower_case():
    return [(c, ord(chr(c).lower())) for c in POINTS
            if chr(c).lower() != chr(c) and len(chr(c).lower()) == 1]


def table(kind, name, cells, per_line):
    print(f"const {kind} k{name}[] = {{")
    for i in range(0, len(cells), per_line):
        print("    " + ", ".join(cells[i:i + per_line]) + ",")
    print("};\n")


def main():
    print("// Written by scripts/make_unicode_form_tables.py from Unicode "
          f"{unicodedata.unidata_version}; do not edit.\n"
          "// clang-format off\n"
          '#include "engine/tokenizer/unicode_form_tables.hpp"\n\nnamespace sluice {\nnamespace {\n')
    rows, parts = compatibility()
    table("CompatibilityDecomposition", "Rows", [f"{{0x{c:X}, {b}, {n}}}" for c, b, n in rows], 5)
    table("char32_t", "Parts", [f"0x{part:X}" for part in parts], 12)
    table("LowerCasePair", "LowerCase", [f"{{0x{u:X}, 0x{l:X}}}" for u, l in lower_case()], 5)
    print("}  // namespace\n\n"
          "std::span<const CompatibilityDecomposition> compatibility_decompositions() {\n"
          "  return kRows;\n}\n"
          "std::span<const char32_t> compatibility_parts() { return kParts; }\n"
          "std::span<const LowerCasePair> lower_case_pairs() { return kLowerCase; }\n\n"
          "}  // namespace sluice\n// clang-format on")


if __name__ == "__main__":
    main()
