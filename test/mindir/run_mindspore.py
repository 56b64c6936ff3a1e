#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_mindspore.py FOLDER NAME...: MindSpore loads FOLDER/NAME.mindir and runs it on NAME.inK.npy; writes NAME.gotK.npy and a line NAME: ok, or
NAME: why not. For test_mindspore.py, by a Python that has MindSpore."""
import glob
import os
import sys

os.environ.setdefault("GLOG_v", "4")
import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402


def flat(x):
    return [y for v in x for y in flat(v)] if isinstance(x, (list, tuple)) else [x]


def one(stem):
    inputs = [ms.Tensor(np.load(p)) for p in sorted(glob.glob(stem + ".in*.npy"))]
    for k, y in enumerate(flat(ms.nn.GraphCell(ms.load(stem + ".mindir"))(*inputs))):
        if isinstance(y, ms.Tensor):
            y = (y.astype(ms.float32) if y.dtype == ms.bfloat16 else y).asnumpy()
        np.save(f"{stem}.got{k}.npy", y)


ms.set_context(mode=ms.GRAPH_MODE)
for name in sys.argv[2:]:
    try:
        one(os.path.join(sys.argv[1], name))
        print(f"{name}: ok", flush=True)
    except Exception as e:
        print(f"{name}: {' '.join(str(e).split())[:300]}", flush=True)
