#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Arrays go through the command unchanged, whatever NumPy wrote them; damaged files get an error.
test_npy.py ANFORA"""
import io
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

import numpy as np
from numpy.lib import format as npy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import Tap  # noqa: E402

ANFORA = os.path.abspath(sys.argv[1])
TAP = Tap()
TYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
SHAPES = [(), (1,), (5,), (0,), (2, 3), (3, 0, 2), (2, 3, 4), (1, 2, 1, 3)]


def run(*words):
    return subprocess.run([ANFORA, "run", "id.anf", *words], capture_output=True, text=True, timeout=60, check=False)


def make(dtype, shape, rng):
    data = rng.integers(0, 256, size=int(np.prod(shape)) * np.dtype(dtype).itemsize, dtype=np.uint8).tobytes()
    if dtype == "?":
        return (np.frombuffer(data, np.uint8) % 2).astype("?").reshape(shape)
    return np.frombuffer(data, dtype).reshape(shape)  # every bit pattern, NaNs too


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def passes(name, array, version=(1, 0)):
    with open("in.npy", "wb") as f:
        npy.write_array(f, array, version=version)
    if os.path.exists("out.npy"):
        os.remove("out.npy")
    r = run("@in.npy", "-o", "out.npy")
    problem = r.stderr
    if not problem:
        got, want = np.load("out.npy"), np.ascontiguousarray(array).astype(array.dtype.newbyteorder("=")).reshape(array.shape)
        problem = "" if same(got, want) else f"{got!r}\n{want!r}"
    TAP.case(name, problem)


def refuses(name, data, code):
    with open("bad.npy", "wb") as f:
        f.write(data)
    r = run("@bad.npy")
    good = r.returncode in (1, 3) and code in r.stderr
    TAP.case("refused: " + name, "" if good else f"status {r.returncode}\n{r.stdout[:200]}{r.stderr}")


def deflate(strategy, level):
    """A compressor for zipfile with another strategy than its own."""
    return lambda *_: zlib.compressobj(level, zlib.DEFLATED, -15, 8, strategy)


def archives(rng):
    arrays = {"zeros": np.zeros((300, 70)), "random": rng.normal(size=(50, 3)), "few": rng.integers(0, 3, size=90000).astype("i2"),
              "ramp": np.arange(40000, dtype="f4"), "empty": np.zeros((0, 3)), "one": np.array(2.5),
              "text": np.frombuffer(b"to be or not to be " * 2000, np.uint8)}
    usual = zipfile._get_compressor
    for name, strategy, level in [("usual", zlib.Z_DEFAULT_STRATEGY, 6), ("fastest", zlib.Z_DEFAULT_STRATEGY, 1), ("best", zlib.Z_DEFAULT_STRATEGY, 9),
                                  ("stored blocks", zlib.Z_DEFAULT_STRATEGY, 0), ("fixed codes", zlib.Z_FIXED, 6),
                                  ("no copies", zlib.Z_HUFFMAN_ONLY, 6), ("runs", zlib.Z_RLE, 6)]:
        zipfile._get_compressor = deflate(strategy, level)
        np.savez_compressed("in.npz", **arrays)
        zipfile._get_compressor = usual
        problem = ""
        for key, a in arrays.items():
            r = run(f"@in.npz:{key}", "-o", "out.npy")
            problem = problem or r.stderr or ("" if same(np.load("out.npy"), a) else key)
        TAP.case("compressed archive: " + name, problem)
    np.savez("in.npz", weight=np.ones(2), bias=np.zeros(2))
    r = run("@in.npz")
    TAP.case("a whole archive is a record", "" if r.stdout == "{weight = [1.0, 1.0], bias = [0.0, 0.0]}\n" else r.stdout + r.stderr)
    for word, hint in [("@in.npz:weigth", "did you mean 'weight'"), ("@in.npz:x", "it has weight, bias")]:
        r = run(word)
        TAP.case("no such array: " + word, "" if r.returncode == 1 and "E1350" in r.stderr and hint in r.stderr else r.stderr)


def raw(header, data=b"", version=1):
    text = header.encode() if isinstance(header, str) else header
    size = struct.pack("<H", len(text)) if version == 1 else struct.pack("<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + data


def good_files():
    rng = np.random.default_rng(7)
    for dtype in TYPES:
        for order in "<>" if np.dtype(dtype).itemsize > 1 else "|":
            full = dtype if dtype == "?" else order + dtype
            for shape in SHAPES:
                passes(f"{full} {shape}", make(dtype, shape, rng).astype(full))
        passes(f"{dtype} in Fortran order", np.asfortranarray(make(dtype, (2, 3, 4), rng)))
        passes(f"{dtype} in Fortran order, no elements", np.asfortranarray(make(dtype, (2, 0, 4), rng)))
    for version in [(1, 0), (2, 0), (3, 0)]:
        passes(f"version {version}", np.arange(6.0).reshape(2, 3), version)


def bad_files():
    good = io.BytesIO()
    np.save(good, np.arange(6, dtype="<f4").reshape(2, 3))
    good = good.getvalue()
    for cut in (0, 5, 6, 8, 9, 40, 100, len(good) - 24, len(good) - 1):
        refuses(f"cut off at {cut}", good[:cut], "E034")
    refuses("too long", good + b"\0", "E0340")
    refuses("version 9", good[:6] + b"\x09" + good[7:], "E0340")
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }"
    for shape, code in [("(-1,)", "E0343"), ("(99999999999999999999,)", "E0343"), ("(4611686018427387904, 4)", "E034"),
                        ("(" + "1, " * 17 + ")", "E0343"), ("(2 3)", "E0340"), ("3", "E0340"), ("(1,", "E034"), ("(x,)", "E0343"),
                        ("(1000000000000,)", "E0342"), ("(3,)", "E0342"), ("(0, 99999999999)", "E0340")]:
        refuses("shape " + shape[:30], raw(head % shape, b"\0" * 8), code)
    for descr, code in [("'O'", "E0341"), ("'<U4'", "E0341"), ("'<M8[s]'", "E0341"), ("'<f16'", "E0341"), ("'|V2'", "E0341"),
                        ("[('a', '<f4')]", "E0341"), ("''", "E0341"), ("'f4'", "E0341"), ("4", "E0340"), ("'<f4", "E0340")]:
        refuses("descr " + descr, raw("{'descr': %s, 'fortran_order': False, 'shape': (), }" % descr, b"\0" * 4), code)
    for header in ["", "{", "{}", "[]", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
                   "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
                   "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}", "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x",
                   "{'descr' '<f4', 'fortran_order': False, 'shape': ()}", "{'descr': '<f4' 'fortran_order': False, 'shape': ()}"]:
        refuses("header " + header[:50], raw(header, b"\0" * 4), "E0340")
    refuses("a header of 4 GB", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", "E0340")
    r = run("@none.npy")
    TAP.case("refused: no file", "" if r.returncode == 1 and "E0301" in r.stderr else r.stderr)


def saving():
    for name, text, code in [("bf16", "bf16(1.0)", "E0344"), ("a string", '"a"', "E0015"), ("a function", "Sin", "E0015")]:
        with open("one.anf", "w", encoding="utf-8") as f:
            f.write(f"def main() {{ {text} }}\n")
        r = subprocess.run([ANFORA, "run", "one.anf", "-o", "x.npy"], capture_output=True, text=True, check=False)
        TAP.case("not saved: " + name, "" if code in r.stderr and not os.path.exists("x.npy") else r.stderr + "no error")
    with open("one.anf", "w", encoding="utf-8") as f:
        f.write("def main(x) { (x, x + 1) }\n")
    np.save("in.npy", np.arange(3))
    subprocess.run([ANFORA, "run", "one.anf", "x=@in.npy", "-o", "t.npy"], check=True)
    good = same(np.load("t.0.npy"), np.arange(3)) and same(np.load("t.1.npy"), np.arange(3) + 1)
    TAP.case("a tuple is saved item by item", "" if good else "other values")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("id.anf", "w", encoding="utf-8") as f:
            f.write("def main(x) { x }\n")
        good_files()
        bad_files()
        saving()
        archives(np.random.default_rng(3))
        os.chdir("/")
    TAP.done()


main()
