# SPDX-License-Identifier: Apache-2.0
"""What scripts that measure peers share: one thread, and processor time as bench.h prints it. Imported before the
peers are, which read how many threads they may use when they start."""
import os
import time

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NPROC", "PJRT_NPROC"):
    os.environ[name] = "1"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"


def measure(what, run, turns):
    for _ in range(3):
        run()
    took = []
    for _ in range(turns):
        start = time.process_time()
        run()
        took.append(1e6 * (time.process_time() - start))
    took.sort()
    print(f"  {what:37} {took[turns // 2]:8.4g} us      ({took[0]:.4g} to {took[-1]:.4g})", flush=True)
    return took[turns // 10]


def run_all(title, *peers):
    """Each is a function with_NAME."""
    print(title)
    for peer in peers:
        try:
            peer()
        except Exception as error:  # one that is not installed, or finds no compiler
            print(f"  {peer.__name__[5:]}: {error}")
