#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py NAME out.c templates.anf..: the texts as the C array anfi_templates_NAME."""
import sys


def main():
    name, out = sys.argv[1:3]
    data = b""
    for path in sys.argv[3:]:
        with open(path, "rb") as f:
            data += f.read()
    rows = [",".join(map(str, data[i:i + 32])) for i in range(0, len(data), 32)]
    with open(out, "w", encoding="utf-8") as f:
        f.write("/* Written by embed.py. */\n#include <stddef.h>\n"
                f"extern const unsigned char anfi_templates_{name}[];\nextern const size_t anfi_templates_{name}_len;\n"
                f"const unsigned char anfi_templates_{name}[] = {{\n" + ",\n".join(rows + ["0"]) + "};\n"
                f"const size_t anfi_templates_{name}_len = {len(data)};\n")


main()
