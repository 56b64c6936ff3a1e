#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed_text.py NAME in.h out.c: the text after a file's first comment block as a C array of characters."""
import sys


def main():
    name, source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as f:
        text = f.read()
    data = text[text.index("*/\n") + 3:].encode()
    lines = [",".join(map(str, data[i:i + 32])) for i in range(0, len(data), 32)]
    with open(target, "w", encoding="utf-8") as out:
        out.write("/* Written by embed_text.py. */\n" + f"extern const unsigned char {name}[];\n"
                  f"const unsigned char {name}[] = {{\n" + ",\n".join(lines + ["0"]) + "};\n")


main()
