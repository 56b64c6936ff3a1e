#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damaged models get an error that says where and why. test_bad.py ANFORA"""
import os
import struct
import tempfile
import zipfile

import numpy as np

from model import FIXTURES, Tap, anfora

TAP = Tap()
PARAM = open(os.path.join(FIXTURES, "mlp.pnnx.param"), encoding="utf-8").read()
BIN = open(os.path.join(FIXTURES, "mlp.pnnx.bin"), "rb").read()


def check(name, param=PARAM, data=BIN, error=None, words=(), status=1):
    with open("m.pnnx.param", "wb") as f:
        f.write(param if isinstance(param, bytes) else param.encode())
    if os.path.exists("m.pnnx.bin"):
        os.remove("m.pnnx.bin")
    if data is not None:
        with open("m.pnnx.bin", "wb") as f:
            f.write(data)
    r = anfora("import", "m.pnnx.param", "-o", "m.ir")
    if error is None:
        good = r.returncode == 0
    else:
        good = r.returncode == status and f" {error}: " in " " + r.stderr and all(w in r.stderr for w in words)
    TAP.case(name, "" if good else f"status {r.returncode}, want {error} {words}\n{r.stderr}")


def edit(old, new):
    assert old in PARAM, old
    return PARAM.replace(old, new, 1)


def line(n, text):
    """The .param with its n-th line replaced."""
    lines = PARAM.split("\n")
    lines[n - 1] = text
    return "\n".join(lines)


def archive(entries, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile("a.zip", "w", method) as z:
        for key, data in entries.items():
            z.writestr(zipfile.ZipInfo(key), data, compress_type=method)
    with open("a.zip", "rb") as f:
        return f.read()


def entries():
    with open("b.zip", "wb") as f:
        f.write(BIN)
    with zipfile.ZipFile("b.zip") as z:
        return {i.filename: z.read(i) for i in z.infolist()}


def put(at, data):
    return BIN[:at] + data + BIN[at + len(data):]


def text():
    P = "m.pnnx.param"
    check("as it is")
    check("line ends of DOS, a blank at the end", PARAM.replace("\n", " \r\n"))
    check("wrong magic", line(1, "7767518"), error="E1030", words=[P + ":1:1", "7767518"])
    check("empty .param", "", error="E1030", words=["the end of the line"])
    check("a binary file", b"\x08\x07\x12\x04\x00\xff", error="E1030")
    check("counts missing", line(2, ""), error="E1031", words=[P + ":2:1", "number of operators"])
    check("only the magic", "7767517\n", error="E1031", words=[P + ":2:1"])
    check("one count", line(2, "9"), error="E1031", words=[P + ":2:2", "number of operands"])
    check("negative count", line(2, "-9 8"), error="E1031", words=[P + ":2:1", "'-9'"])
    check("count too big", line(2, "900000 8"), error="E1032", words=["900000 operators", "has 9"])
    check("count too small", line(2, "8 8"), error="E1032", words=[P + ":11:1"])
    check("wrong count of operands", line(2, "9 7"), error="E1032", words=["7 operands", "has 8"])
    check("unknown operand", edit("n.1                      1 1 1 2", "n.1                      1 1 77 2"), error="E1033",
          words=[P + ":5:55", "'77'"])
    check("an operand before it is made", edit("n.1                      1 1 1 2", "n.1                      1 1 3 2"),
          error="E1033", words=["'3'"])
    check("10^9 inputs", edit("n.1                      1 1 1 2", "n.1                      1000000000 1 1 2"), error="E1039",
          words=[P + ":5"])
    check("fewer inputs than told", line(5, "nn.ReLU n.1 3 1 1 1"), error="E1031", words=["name of an input"])
    check("duplicate operand", edit("1 1 1 2 #1", "1 1 1 1 #1"), error="E1034", words=["operand", "'1'"])
    check("duplicate operator", edit("nn.ReLU                  n.1", "nn.ReLU                  n.0"), error="E1034",
          words=[P + ":5:26", "operator", "'n.0'"])
    check("duplicate parameter", edit("bias=True in_features=32", "bias=True bias=True in_features=32"), error="E1034",
          words=["parameter"])
    check("weight's shape too small", edit("@bias=(64)f32", "@bias=(32)f32"), error="E1041", words=["n.0.bias", "256", "128"])
    check("weight's shape too big", edit("@bias=(64)f32", "@bias=(128)f32"), error="E1041", words=["n.0.bias", "512"])
    check("negative dim", edit("@bias=(64)f32", "@bias=(-64)f32"), error="E1035", words=["natural number"])
    check("10^5 x 10^5", edit("@bias=(64)f32", "@bias=(100000,100000)f32"), error="E1041", words=["40000000000"])
    check("dims that overflow", edit("@bias=(64)f32", "@bias=(4294967296,4294967296)f32"), error="E1035", words=["overflow"])
    check("17 dims", edit("@bias=(64)f32", "@bias=(" + ",".join("1" * 17) + ")f32"), error="E1035", words=["16 dims"])
    check("a weight whose dims are not its size", edit("@bias=(64)f32", "@bias=()f32"), error="E1041")
    check("a weight with an open dim", edit("@bias=(64)f32", "@bias=(?)f32"), error="E1035")
    check("an operand with dims and without", edit("#0=(4,32)f32", "#0=()f32"), error="E1038", words=[P + ":4:"])
    check("dims that are words", edit("#0=(4,32)f32", "#0=(a,b)f32"), error="E1035")
    check("no brackets", edit("#0=(4,32)f32", "#0=4,32"), error="E1035")
    check("unknown element type", edit("@bias=(64)f32", "@bias=(64)f33"), error="E1035", words=["element type"])
    check("element type that is not here", edit("@bias=(64)f32", "@bias=(64)c32"), error="E1044", status=3)
    check("integer overflow", edit("in_features=32", "in_features=99999999999999999999"), error="E1036", words=["64 bits"])
    check("real overflow", edit("eps=1.000000e-5", "eps=1e999"), error="E1036", words=["greatest double"])
    check("two shapes", edit("#1=(4,64)f32 #2", "#1=(4,63)f32 #2"), error="E1038", words=["(4,64)f32", "(4,63)f32"])
    check("a shape of another's operand", edit("#1=(4,64)f32 #2", "#7=(4,64)f32 #2"), error="E1037", words=["'7'"])
    check("a key for another's operand", edit("1 1 1 2 #1", "1 1 1 2 $input=0 #1"), error="E1037", words=["'0'"])
    check("no key", edit("eps=1.000000e-5", "=1"), error="E1031", words=["key=value"])
    check("no value", edit("eps=1.000000e-5", "eps"), error="E1031", words=["key=value"])
    check("only a type", line(5, "nn.ReLU"), error="E1031", words=["name of an operator"])


def weights():
    e = entries()
    check("no .bin", data=None, error="E0301", words=["m.pnnx.bin"])
    check(".bin empty", data=b"", error="E1040", words=["m.pnnx.bin", "too short"])
    check(".bin truncated", data=BIN[:1000], error="E1040", words=["cut off"])
    check("no central directory", data=BIN[: BIN.index(b"PK\x01\x02")], error="E1040")
    check("no zip", data=b"x" * 30000, error="E1040", words=["no zip"])
    check("wrong checksum", data=put(0x60, b"\xff\xff"), error="E1040", words=["checksum"])
    check("deflated", data=archive(e, zipfile.ZIP_DEFLATED))
    check("compressed by LZMA", data=archive(e, zipfile.ZIP_LZMA), error="E1043", words=["compressed by"], status=3)
    check("32-bit records", data=archive(e))
    check("a further entry", data=archive({**e, "n.9.bias": b"abcd"}))
    del e["n.0.bias"]
    check("missing entry", data=archive(e), error="E1042", words=["m.pnnx.param:4:", "n.0.bias"])
    directory = BIN.index(b"PK\x01\x02")
    check("zip64 size 2^60", data=put(directory + 46 + 8 + 4, struct.pack("<QQ", 1 << 60, 1 << 60)), error="E1040", words=["cut off"])
    check("an offset outside", data=put(directory + 46 + 8 + 20, struct.pack("<Q", 1 << 60)), error="E1040", words=["not where"])
    check("two sizes", data=put(directory + 46 + 8 + 4, struct.pack("<Q", 8)), error="E1040", words=["two sizes"])
    check("another name", data=put(30, b"X"), error="E1040", words=["another name"])
    check("encrypted", data=put(directory + 8, b"\x01"), error="E1043", words=["encrypted"], status=3)
    check("a directory that is too long", data=put(len(BIN) - 42 - 56 + 32, struct.pack("<Q", 1 << 40)), error="E1040")
    check("a zip64 record that is elsewhere", data=put(len(BIN) - 42 + 8, struct.pack("<Q", 5)), error="E1040")
    check("zip64 without a record", data=BIN[: len(BIN) - 98] + BIN[-22:], error="E1040")
    check("a directory entry that is none", data=put(directory, b"XX"), error="E1040", words=["damaged"])
    check("an entry without a zip64 field", data=put(directory + 46 + 8, b"\x09"), error="E1040", words=["zip64"])
    name = zipfile.ZipFile("b.zip").infolist()[1].filename
    first = zipfile.ZipFile("b.zip").infolist()[0].filename
    if len(name) != len(first):  # a name twice, in an archive of equal names
        two = archive({"a": b"1", "b": b"2"}).replace(b"b", b"a")
        check("two entries of one name", "7767517\n1 1\npnnx.Attribute a 0 1 0 @data=(1)i8\n", two, error="E1045")


def layers():
    def one(name, operator, error, words, status=1, more="", x="(2,3,8,8)f32", weights=None):
        param = f"7767517\n3 2\npnnx.Input x 0 1 0 #0={x}\n{operator} {more}\npnnx.Output o 1 0 1\n"
        check(name, param, weights and archive(weights), error=error, words=words, status=status)

    one("unknown type", "aten::foo f 1 1 0 1", "E1050", ["aten::foo: line 4"], 3)
    param = "7767517\n5 3\npnnx.Input x 0 1 0 #0=(2)f32\naten::foo a 1 1 0 1\naten::bar b 1 1 1 2\naten::foo c 1 0 2\npnnx.Output o 1 0 2\n"
    check("all unknown types", param, None, error="E1050", words=["2 operator types", "aten::foo: lines 4, 6", "aten::bar: line 5"], status=3)
    one("parameter missing", "Tensor.permute p 1 1 0 1", "E1051", ["'dims'"])
    one("parameter of another kind", "Tensor.permute p 1 1 0 1 dims=(a,b)", "E1052", ["m.pnnx.param:4:"])
    one("word for a number", "F.leaky_relu p 1 1 0 1 negative_slope=zeros", "E1052", ["negative_slope"])
    one("number for a bool", "nn.MaxPool2d p 1 1 0 1 kernel_size=2 ceil_mode=3", "E1052", ["True or False"])
    one("variant that is not done", "F.gelu p 1 1 0 1 approximate=quick", "E1053", ["approximate=quick"], 3)
    one("unknown parameter", "nn.ReLU p 1 1 0 1 speed=3", "E1054", ["'speed'"], 3)
    one("a named input that is not known", "F.softmax p 2 1 0 0 1 dim=0 $input=0 $mask=0", "E1054", ["named input 'mask'"], 3)
    one("a type that is not what comes out", "torch.transpose p 1 1 0 1 dim0=0 dim1=1 #1=(2,3)f32", "E1300", ["f32[3, 2]", "f32[2, 3]"], x="(2,3)f32")
    one("a weight and an input that is not that weight", "nn.Linear p 2 1 0 0 1 @weight=(4,2)f32", "E1053", ["so many inputs"], 3,
        weights={"p.weight": np.zeros((4, 2), "f4").tobytes()}, x="(2,2)f32")
    one("an input too many", "torch.frac p 2 1 0 0 1", "E1053", ["so many inputs"], 3)
    one("a size that does not fit", "nn.PixelShuffle p 1 1 0 1 upscale_factor=2", "E1055", ["does not divide by the factor"])
    one("a mode that does not fit the rank", "nn.Conv2d p 1 1 0 1 padding=full @weight=(1,3,1,1)f32", "E1053", ["padding=full"], 3,
        weights={"p.weight": np.zeros((1, 3, 1, 1), "f4").tobytes()})
    one("input missing", "nn.ReLU p 0 1 1", "E0202", ["Relu"])
    one("input of matmul missing", "torch.matmul p 1 1 0 1", "E1051", ["'other'"])
    one("weight missing", "nn.Linear p 1 1 0 1 in_features=8 out_features=4 bias=True", "E1051", ["'weight'"])
    one("wrong number of outputs", "torch.chunk p 1 1 0 1 chunks=2 dim=0", "E1056", ["2 results", "1 output"])
    one("axis outside", "torch.transpose p 1 1 0 1 dim0=0 dim1=7", "E0540", ["axis 7"])
    one("shapes that do not fit", "torch.matmul p 2 1 0 0 1", "E0544", ["MatMul"], x="(2,3)f32")
    one("a bad expression", "pnnx.Expression e 1 1 0 1 expr=add(@0,@1)", "E1005", ["m.pnnx.param:4:39", "'@1'"])
    one("an expression of broken form", "pnnx.Expression e 1 1 0 1 expr=add(@0", "E1003", ["m.pnnx.param:4:38"])
    one("an expression that is a number and has an input", "pnnx.Expression e 1 1 0 1 expr=3", "E1053", ["inputs that it does not name"], 3)
    one("an expression with an input too many", "pnnx.Expression e 2 1 0 0 1 expr=neg(@1)", "E1053", ["inputs that it does not name"], 3)
    one("a number that the file calls a tensor", "pnnx.Expression e 0 1 1 expr=3 #1=(2)f32", "E1300", ["gives int", "f32[2]"])
    one("no expression", "pnnx.Expression e 1 1 0 1", "E1051", ["'expr'"])
    one("an input without a shape", "nn.ReLU p 1 1 0 1", "E1055", ["shape"], x="(2)null")
    w = {"p.weight": np.zeros((4, 8), "f4").tobytes()}
    param = "7767517\n3 2\npnnx.Input x 0 1 0 #0=(2,8)f32\nnn.Linear p 1 1 0 1 in_features=9 @weight=(4,8)f32\npnnx.Output o 1 0 1\n"
    check("a parameter against a weight", param, archive(w), error="E1055", words=["in_features"])
    param = param.replace("in_features=9", "in_features=8").replace("@weight=(4,8)f32", "@weight=(4,8)f32 @scale=(4,8)f32")
    check("unknown weight", param, archive({**w, "p.scale": w["p.weight"]}), error="E1054", words=["'scale'"], status=3)
    with open("m.pnnx.param", "w", encoding="utf-8") as f:
        f.write("7767517\n2 1\npnnx.Input x 0 1 0 #0=(2,?)f32\npnnx.Output o 1 0 0\n")
    np.save("x.npy", np.zeros((3, 2), "f4"))
    r = anfora("run", "--debug", "m.pnnx.param", "@x.npy")
    TAP.case("an input of another shape", "" if r.returncode == 1 and "E1059" in r.stderr and "f32[3, 2]" in r.stderr else r.stderr)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    text()
    weights()
    layers()
    os.chdir("/")
TAP.done()
