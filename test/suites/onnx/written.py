#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""written.py ANFORA: programs, gradients and training steps written as .onnx, run by ONNX Runtime: the values that the program gives.
Run with a Python that has onnx and onnxruntime; status 1 if one differs."""
import os
import sys
import tempfile

import onnx
import onnxruntime

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "onnx"))
import written  # noqa: E402

import numpy as np  # noqa: E402


def run(path, args):
    onnx.checker.check_model(onnx.load(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    out = session.run(None, dict(zip([i.name for i in session.get_inputs()], map(np.asarray, args))))
    return np.concatenate([np.asarray(x).astype(float).ravel() for x in out])


def problem(anfora, folder, name, args):
    path = os.path.join(folder, name + ".onnx")
    said = written.write(anfora, f"{written.PROGRAM}:{name}", path)
    want, why = written.original(anfora, folder, name, args)
    if said or why:
        return said or why
    try:
        return written.differs(run(path, args), want)
    except Exception as e:  # what ONNX Runtime refuses is a result, too
        return f"{type(e).__name__}: {str(e)[:300]}"


def main():
    anfora, bad = sys.argv[1], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, cases in written.CASES.items():
            for i, args in enumerate(cases):
                why = problem(anfora, folder, name, args)
                bad += bool(why)
                print(f"{name} {i}: {why or 'ok'}")
    print(f"{bad} differ")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
