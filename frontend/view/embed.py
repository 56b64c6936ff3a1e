#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py view.html view.css view.js page.c: the page as two C arrays, around the place of its data."""
import sys


def array(name, text):
    data = text.encode()
    rows = [",".join(map(str, data[i : i + 32])) for i in range(0, len(data), 32)]
    return (f"const char anfi_page_{name}[] = {{\n" + ",\n".join(rows) + "};\n"
            f"const size_t anfi_page_{name}_len = {len(data)};\n")


def main():
    html, css, js = (open(p, encoding="utf-8").read() for p in sys.argv[1:4])
    assert "</script" not in js and "</style" not in css
    html = html.replace("/*CSS*/", css).replace("/*JS*/", js)
    head, tail = html.split("/*DATA*/")
    assert all(ord(c) < 128 for c in head + tail), "keep it ASCII, for a char may be signed"
    with open(sys.argv[4], "w", encoding="utf-8") as out:
        out.write('/* Written by embed.py. */\n#include "frontend/view/page.h"\n' + array("head", head) + array("tail", tail))


main()
