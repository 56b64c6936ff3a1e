#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make.py FOLDER: the node suite of the onnx wheel as files, CASE/model.onnx, inK.npy, outK.npy and case.json. Run with a Python
that has onnx; the wheel makes its cases anew, with the same seeds."""
import json
import os
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

FOUR = {"float32", "int32", "int64", "bool"}
# integers of fewer bits are bytes, as floats are by their codes
NARROW = {"int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8"}
NPY = FOUR | {"float16", "float64", "int8", "int16", "uint8", "uint16", "uint32", "uint64", "complex64", "complex128"}


def array(x):
    """As NumPy's array; bfloat16 and what is narrower as (name, array of f32)."""
    if isinstance(x, onnx.TensorProto):
        x = numpy_helper.to_array(x)
    x = np.asarray(x)
    return x


def describe(x, folder, stem):
    """A JSON description of a value, its arrays written to files."""
    if x is None:
        return {"kind": "none"}
    if isinstance(x, (list, tuple)):
        return {"kind": "sequence", "items": [describe(y, folder, f"{stem}.{i}") for i, y in enumerate(x)]}
    if isinstance(x, dict):
        return {"kind": "map"}
    x = array(x)
    name = str(x.dtype)
    if name in NPY:
        np.save(os.path.join(folder, stem + ".npy"), x)
    elif name.startswith("float8") or name == "float4_e2m1fn":
        np.save(os.path.join(folder, stem + ".npy"), x.view("uint8"))
    elif name in NARROW:
        np.save(os.path.join(folder, stem + ".npy"), x.astype(NARROW[name]))
    elif name == "bfloat16":
        np.save(os.path.join(folder, stem + ".npy"), x.astype("float32"))
    return {"kind": "tensor", "dtype": name if x.dtype.kind not in "OSU" else "string", "file": stem + ".npy", "shape": list(x.shape)}


def dtypes(d):
    return {d["dtype"]} if d["kind"] == "tensor" else set().union(*(dtypes(i) for i in d.get("items", []))) or {d["kind"]}


def main():
    top = sys.argv[1]
    warnings.simplefilter("ignore")
    for case in collect_testcases(None):
        folder = os.path.join(top, case.name)
        os.makedirs(folder, exist_ok=True)
        onnx.save(case.model, os.path.join(folder, "model.onnx"))
        ins, outs = case.data_sets[0]
        info = {"in": [describe(x, folder, f"in{i}") for i, x in enumerate(ins)],
                "out": [describe(x, folder, f"out{i}") for i, x in enumerate(outs)],
                "rtol": case.rtol, "atol": case.atol}
        info["four"] = set().union(set(), *(dtypes(d) for d in info["in"] + info["out"])) <= FOUR
        with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as f:
            json.dump(info, f)
    with open(os.path.join(top, "done"), "w", encoding="utf-8") as f:
        f.write(onnx.__version__)


main()
