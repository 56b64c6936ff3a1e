#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The products of bench_dot.c in PyTorch, whose products are oneDNN's: bf16 with row-major operands and with a weight that
is prepacked before, signed bytes into i32. One thread, CPU time of the process."""
from peer import measure, run_all

import numpy as np

TURNS = 60
SHAPES = ((128, 128, 128), (256, 256, 256), (512, 512, 512), (128, 512, 512), (512, 1024, 1024), (256, 3072, 768),
          (256, 768, 3072), (4, 1024, 1024), (33, 65, 129))


def with_torch():
    import torch
    torch.set_num_threads(1)
    with torch.inference_mode():
        for m, n, k in SHAPES:
            a, b = torch.randn(m, k).bfloat16(), torch.randn(k, n).bfloat16()
            c = torch.empty(m, n, dtype=torch.bfloat16)
            size = f"{m}x{n}x{k}"
            many = max(1, int(2e8 / (m * n * k)))  # products in a turn

            def rate(what, run):
                def turn():
                    for _ in range(many):
                        run()
                fastest = measure(what, turn, TURNS)
                print(f"  {'':37} {2e-3 * m * n * k * many / fastest:8.1f} GOP/s", flush=True)
            rate(f"bf16 {size}", lambda: torch.mm(a, b, out=c))
            w = torch.ops.mkldnn._reorder_linear_weight(b.t().contiguous(), m)
            rate(f"bf16 {size} prepacked", lambda: torch.ops.mkldnn._linear_pointwise(a, w, None, "none", [], ""))
            a8, b8 = (torch.from_numpy(np.random.randint(-128, 128, s, dtype=np.int8)) for s in ((m, k), (k, n)))
            rate(f"s8 {size}", lambda: torch._int_mm(a8, b8))


run_all("products by dot products, one thread, CPU time of as many as take some milliseconds", with_torch)
