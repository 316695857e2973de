#!/usr/bin/env python3
"""Writes engine/tokenizer/nfc_tables.cpp from the Unicode data of this Python (3.11: 14.0)."""

import unicodedata

HANGUL = range(0xAC00, 0xD7A4)  # composed by arithmetic
POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF and c not in HANGUL]


def decompositions():
    for c in POINTS:
        parts = unicodedata.decomposition(chr(c)).split()
        if parts and not parts[0].startswith("<"):
            numbers = [int(part, 16) for part in parts]
            yield c, numbers[0], numbers[1] if len(numbers) == 2 else 0


def compositions():
    rows = [(first, second, c) for c, first, second in decompositions()
            if second and unicodedata.normalize("NFC", chr(c)) == chr(c)]
    return sorted(rows)


def classes():
    rows = []
    for c in POINTS:
        value = unicodedata.combining(chr(c))
        if value == 0:
            continue
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == value:
            rows[-1] = (rows[-1][0], c, value)
        else:
            rows.append((c, c, value))
    return rows


def table(kind, name, rows, formats):
    print(f"const {kind} k{name}Rows[] = {{")
    for i in range(0, len(rows), 4):
        cells = ["{" + ", ".join(f.format(v) for f, v in zip(formats, row)) + "}"
                 for row in rows[i:i + 4]]
        print("    " + ", ".join(cells) + ",")
    print("};\n")


def main():
    print("// Written by scripts/make_nfc_tables.py from Unicode "
          f"{unicodedata.unidata_version}; do not edit.\n"
          "// clang-format off\n"
          '#include "engine/tokenizer/nfc_tables.hpp"\n\nnamespace sluice {\nnamespace {\n')
    table("Decomposition", "Decomposition", list(decompositions()), ["0x{:X}"] * 3)
    table("Composition", "Composition", compositions(), ["0x{:X}"] * 3)
    table("CombiningRange", "Combining", classes(), ["0x{:X}", "0x{:X}", "{}"])
    print("}  // namespace\n\n"
          "std::span<const Decomposition> decompositions() { return kDecompositionRows; }\n"
          "std::span<const Composition> compositions() { return kCompositionRows; }\n"
          "std::span<const CombiningRange> combining_ranges() { return kCombiningRows; }\n\n"
          "}  // namespace sluice\n// clang-format on")


if __name__ == "__main__":
    main()
