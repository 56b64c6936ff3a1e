# SPDX-License-Identifier: Apache-2.0
"""Files of MindSpore's format made field by field."""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from wire import field  # noqa: E402


def tensor(name, dims=(2,), kind=1, data=None, more=b""):
    raw = b"\0" * (4 * int(np.prod(dims))) if data is None else data
    return b"".join(field(1, d) for d in dims) + field(2, kind) + field(7, name) + field(9, raw) + more


def node(name, op, *inputs, stated=b""):
    return field(1, b"".join(field(1, i) for i in inputs) + field(2, name) + field(4, "REF::" + op) + stated)


TENSOR = field(2, field(1, 2) + field(2, 1))
MONAD = field(4, "UMonadType")


def graph_of(name, nodes, params=(), out="y", **inputs):
    infos = b"".join(field(5, field(1, n) + info) for n, info in inputs.items())
    return b"".join(nodes) + field(2, name) + b"".join(field(3, p) for p in params) + infos + field(6, field(1, out))


def model(nodes, prims, params=(), out="y", functions=(), more=b""):
    table = b"".join(field(12, field(1, p) + field(2, p.split(":")[0]) + more) for p, more in prims.items())
    graphs = field(7, graph_of("g", nodes, params, out, x=TENSOR)) + b"".join(field(8, f) for f in functions)
    return field(1, "1.1") + graphs + table + field(10, 1) + field(13, 3) + more


def constant(name, kind, more=b""):
    return field(1, field(2, name) + field(4, "Constant") + field(5, field(1, "value") + more + field(16, kind)))
