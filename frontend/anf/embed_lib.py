#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed_lib.py a.anf b.anf ... lib.c: the library's modules as a C table, by name."""
import os
import sys


def main():
    rows, texts = [], []
    for path in sorted(sys.argv[1:-1]):
        name = os.path.splitext(os.path.basename(path))[0]
        with open(path, "rb") as f:
            data = f.read()
        lines = [",".join(map(str, data[i:i + 32])) for i in range(0, len(data), 32)]
        texts.append(f"static const unsigned char text_{name}[] = {{\n" + ",\n".join(lines + ["0"]) + "};\n")
        rows.append(f'    {{"{name}", "lib/{name}.anf", text_{name}, {len(data)}}},\n')
    with open(sys.argv[-1], "w", encoding="utf-8") as out:
        out.write('/* Written by embed_lib.py. */\n#include "frontend/anf/lib.h"\n' + "".join(texts) +
                  "const anfi_lib_module anfi_lib[] = {\n" + "".join(rows) + "    {0}};\n")


main()
